"""Fine-tuning of a network: early stopping, the average with the trained weights, no change where
it does not help.
"""

import itertools

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    Hybrid,
    HybridNetwork,
    InputError,
    LinearHead,
    Shortlist,
    kneser_ney,
)
from keras_nplm.models import adaptation
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.base import find_network
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.mixture import Mixture, Uniform
from tests.networks import compose

NEW = np.array([4, 5, 6, 7, 3] * 40, np.int32)
HELD_OUT = np.array([4, 5, 6, 7, 3] * 4, np.int32)


@pytest.fixture(scope="module")
def network() -> NPLM:
    network = NPLM(vocabulary_size=9, order=3, embedding_dim=3, hidden_units=4, dropout=0.2)
    network.set_unigram(np.array([0, 1, 0, 9, 5, 5, 5, 5, 20]))
    return network


@pytest.fixture(scope="module")
def fitted(network) -> tuple:
    """The result of `adapt_network`, and its training runs."""
    runs = []
    fit = adaptation.Fitting.run

    def run_and_record(fitting, rate):
        runs.append(fit(fitting, rate))
        return runs[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adaptation.Fitting, "run", run_and_record)
        return adapt_network(network, NEW, HELD_OUT, epochs=3, seed=1), runs


@pytest.mark.long
def test_adaptation_lowers_the_held_out_perplexity(network, fitted):
    (copy, result), _ = fitted
    assert result.after < 0.8 * result.before
    assert result.before == pytest.approx(evaluate(network, HELD_OUT)["perplexity"], rel=1e-5)
    assert result.after == pytest.approx(evaluate(copy, HELD_OUT)["perplexity"], rel=1e-5)
    assert (result.tokens, result.held_out_tokens, result.held_out_unk_tokens) == (200, 20, 0)
    assert 1 <= result.epochs <= 3


@pytest.mark.long
def test_the_network_of_a_mixture_is_adapted_within_it(network):
    mixture = Mixture([Uniform(9), network], [0.1, 0.9])
    copy, result = adapt_network(mixture, NEW, HELD_OUT, epochs=2, seed=1)
    assert copy.models[0] is mixture.models[0] and copy.models[1] is not network
    assert result.after < 0.8 * result.before
    for model, perplexity in ((mixture, result.before), (copy, result.after)):
        assert perplexity == pytest.approx(evaluate(model, HELD_OUT)["perplexity"], rel=1e-5)


@pytest.mark.long
def test_text_that_does_not_help_leaves_the_weights(network):
    wrong = np.array([8, 8, 8, 3] * 40, np.int32)  # of which the held-out text has nothing
    copy, result = adapt_network(network, wrong, HELD_OUT, epochs=1)
    assert (result.rate, result.epochs, result.share) == (0, 0, 0)
    assert result.after == result.before
    for weight, other in zip(copy.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.long
def test_the_smallest_sufficient_share_is_chosen(network, fitted):
    """The weights are θ_0 + α (θ' - θ_0) with the smallest α within the tolerance of the best."""
    (_, result), runs = fitted
    best = min(runs, key=lambda run: run.perplexity)
    start = [weight.numpy() for weight in network.trainable_weights]
    perplexities = {}
    oracle = adaptation.copy_network(network)
    for share in (0.25, 0.5, 0.75, 1.0):
        for variable, old, new in zip(oracle.trainable_weights, start, best.weights, strict=True):
            variable.assign((1 - share) * old + share * new)
        perplexities[share] = evaluate(oracle, HELD_OUT)["perplexity"]
    enough = [
        share for share, value in perplexities.items() if value <= 1.02 * min(perplexities.values())
    ]
    assert result.share == enough[0] and result.rate == best.rate
    assert result.after == pytest.approx(perplexities[enough[0]], rel=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "quarter, share",
    [pytest.param(101.9, 0.25, id="within"), pytest.param(102.1, 0.5, id="beyond")],
)
def test_a_share_within_two_percent_of_the_best_is_enough(
    network, fitted, monkeypatch, quarter, share
):
    perplexities = {0.25: quarter, 0.5: 101.0, 0.75: 100.0, 1.0: 100.5}
    _, runs = fitted

    def measure(fitting, weights, share):
        return 200.0 if weights is fitting.trained else perplexities[share]

    def run(fitting, rate):
        return runs[0]

    monkeypatch.setattr(adaptation.Fitting, "measure", measure)
    # what a training run gives counts for nothing here
    monkeypatch.setattr(adaptation.Fitting, "run", run)
    _, result = adapt_network(network, NEW, HELD_OUT, epochs=1)
    assert (result.share, result.after) == (share, perplexities[share])


@pytest.mark.long
def test_rates_follow_the_best_epoch(fitted):
    """The best epoch is the first: a third of the rate is tried.

    It is the last: three times the rate.
    """
    _, runs = fitted
    factor = 1 / 3 if runs[0].epochs == 1 else 3
    assert runs[0].rate == 0.1 and 2 <= len(runs) <= 3
    for run, following in itertools.pairwise(runs):
        assert run.epochs in (1, 3) and following.rate == pytest.approx(factor * run.rate)


def test_a_text_without_words_of_the_short_list_is_refused(network):
    model = _build_shortlist_in_mixture(network)
    unlisted = np.array([7, 8, 8] * 9, np.int32)  # without </s>, which the list has
    for texts in ((unlisted, HELD_OUT), (NEW, unlisted)):
        with pytest.raises(InputError, match="must have words that the network predicts.*its 7 "):
            adapt_network(model, *texts, epochs=1)


def _build_nested_mixture(network):
    return Mixture([Mixture([network, Uniform(9)], [0.6, 0.4]), Uniform(9)], [0.9, 0.1])


def _build_shortlist_in_mixture(network):
    listed = compose(9, head=LinearHead(9, num_outputs=7, name="prob"))
    return Mixture([Shortlist(listed, _estimate_background()), Uniform(9)], [0.9, 0.1])


def _build_hybrid_in_mixture(network):
    hybrid = compose(9, kind=HybridNetwork)
    return Mixture([Hybrid(hybrid, _estimate_background()), Uniform(9)], [0.9, 0.1])


def _estimate_background():
    return kneser_ney(np.array([4, 5, 8, 7, 3, 6, 5, 3] * 9, np.int32), 9, 2, "sentence")


@pytest.mark.long
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(_build_nested_mixture, id="a mixture in a mixture"),
        pytest.param(
            _build_shortlist_in_mixture, id="a short-list in a mixture", marks=pytest.mark.long
        ),
        pytest.param(_build_hybrid_in_mixture, id="a hybrid in a mixture", marks=pytest.mark.long),
    ],
)
def test_the_network_is_adapted_at_any_depth(build, network):
    model = build(network)
    before = [weight.copy() for weight in find_network(model).get_weights()]
    copy, result = adapt_network(model, NEW, HELD_OUT, epochs=1, seed=1)
    assert result.after < result.before
    assert evaluate(copy, HELD_OUT)["perplexity"] == pytest.approx(result.after, rel=1e-5)
    moved = [
        np.abs(new - old).max()
        for new, old in zip(find_network(copy).get_weights(), before, strict=True)
    ]
    assert max(moved) > 0
    for weight, old in zip(find_network(model).get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
