"""Short-lists and their networks against the formulas in NumPy: probabilities, training, first
weights.
"""

import numpy as np
import pytest

from keras_nplm import DynamicSettings, Mixture, Shortlist, Uniform, evaluate, make_dynamic
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import kneser_ney
from tests.language_models import BUILDERS, Table, V, build, make_text

LISTED = 7  # ids 4 to 6 are the words of the list


def _build(background: NextWordModel) -> Shortlist:
    return Shortlist(build("short-list", background.boundary).network, background)


def _contexts(order: int) -> np.ndarray:
    """Return contexts seen and unseen, with the beginnings of texts and sentences among them."""
    contexts = np.random.default_rng(3).integers(1, V, (120, order - 1)).astype(np.int32)
    contexts[::5, : order // 2] = 0
    contexts[1::5, : order // 2] = 2
    return contexts


def _predict_plainly(model: Shortlist, context_ids: np.ndarray) -> np.ndarray:
    """Return P of every word by the formulas."""
    of_network = context_ids[:, context_ids.shape[1] - model.network.order + 1 :]
    of_background = context_ids[:, context_ids.shape[1] - model.background.order + 1 :]
    p = np.exp(model.background.next_log_probs(of_background), dtype=float)
    share = p[:, :LISTED].sum(axis=1, keepdims=True)
    p[:, :LISTED] = np.asarray(model.network(of_network)) * share
    return p


def _check(model: Shortlist, contexts: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=2e-6)
    np.testing.assert_allclose(
        np.exp(model.next_log_probs(contexts)), expected, rtol=1e-5, atol=1e-9
    )
    size = expected.shape[1]
    one_by_one = model.log_prob(
        np.repeat(contexts, size, axis=0), np.tile(np.arange(size), len(contexts))
    )
    np.testing.assert_allclose(np.exp(one_by_one).reshape(-1, size), expected, rtol=1e-5, atol=1e-9)


def _build_mixture():
    return Mixture([build("kneser-ney", "stream"), Uniform(V, "stream")], [0.7, 0.3])


@pytest.mark.parametrize(
    "build_background",
    [
        pytest.param(
            lambda: kneser_ney(make_text(1, "stream"), V, 2, "stream"),
            id="a lower order, looked up",
        ),
        pytest.param(_build_mixture, id="a mixture, summed"),
        pytest.param(lambda: build("kneser-ney", "sentence"), id="a higher order, in sentences"),
    ],
)
def test_probabilities_follow_the_formulas_and_sum_to_1(build_background):
    model = _build(build_background())
    assert model.order == max(3, model.background.order)
    contexts = _contexts(model.order)
    _check(model, contexts, _predict_plainly(model, contexts))


@pytest.mark.parametrize("outside, mass", [(0, 0), (1, 1), (1 + 1e-6, 1)])
def test_all_mass_is_in_the_list_or_outside(outside, mass):
    """Also if a background sums to a little more than 1."""
    is_listed = np.arange(V) < LISTED
    p = np.where(is_listed, (1 - outside) / LISTED, outside / (V - LISTED))
    model = _build(Table(np.tile(np.maximum(p, 0), (V, 1)), "stream"))
    contexts = np.array([[4, 5]])
    p = np.exp(model.next_log_probs(contexts))
    assert p[0, :LISTED].sum() == pytest.approx(1 - mass, abs=1e-6)
    _check(model, contexts, p)


def test_the_mass_follows_a_background_that_is_trained_further():
    other = BUILDERS["nplm"]("stream")
    model = _build(Mixture([other, Uniform(V, "stream")], [0.9, 0.1]))
    contexts = _contexts(3)[:6]
    targets = np.full(6, 4)
    before = model.log_prob(contexts, targets)
    other.prob.b.assign(other.prob.b + np.linspace(0, 5, V))
    after = model.log_prob(contexts, targets)
    np.testing.assert_allclose(after, model.next_log_probs(contexts)[:, 4], rtol=1e-5)
    assert (abs(after - before) > 0.1).all()


@pytest.mark.long
def test_a_background_mixture_stays_while_the_network_learns():
    text = make_text(2, "stream", 60)
    model = _build(_build_mixture())
    static = evaluate(model, text)["perplexity"]
    still = make_dynamic(model, DynamicSettings(rate=0.0, mixture_rate=0.1))
    assert evaluate(still, text)["perplexity"] == pytest.approx(static, rel=1e-5)
    learner = make_dynamic(model, DynamicSettings(chunk=4, rate=0.5))
    assert evaluate(learner, text)["perplexity"] != pytest.approx(static, rel=1e-3)
