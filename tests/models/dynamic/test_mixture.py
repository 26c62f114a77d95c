"""Mixtures whose weights follow the text against a plain Python loop."""

import numpy as np
import pytest

from keras_nplm import NPLM, Mixture, evaluate, kneser_ney, ngram_dataset
from keras_nplm.models.dynamic import make_dynamic, tune_dynamic
from keras_nplm.models.dynamic.mixture import DynamicMixture
from tests.language_models import V, build, make_text

TEXT = make_text(2, "sentence")
NGRAMS = np.random.default_rng(1).integers(3, V, (53, 4)).astype(np.int32)


def _parts() -> list:
    long, uniform = (build(name, "sentence") for name in ("kneser-ney", "uniform"))
    return [long, kneser_ney(TEXT, V, 2), uniform]


def _build_nested() -> Mixture:
    long, short, uniform = _parts()
    return Mixture([Mixture([long, uniform], [0.5, 0.5]), short], [0.7, 0.3])


def _plain_loop(
    columns: np.ndarray, weights: np.ndarray, bins: np.ndarray, chunk: int, rate: float
) -> np.ndarray:
    weights = weights.copy()
    result = []
    for first in range(0, len(columns), chunk):
        moves = np.zeros_like(weights)
        rows = range(first, min(first + chunk, len(columns)))
        for row in rows:
            joint = weights[bins[row]] * np.exp(columns[row])
            result.append(np.log(joint.sum()))
            moves[bins[row]] += joint / joint.sum() - weights[bins[row]]
        if len(rows) == chunk:
            weights += rate * moves / chunk
    return np.array(result)


@pytest.mark.parametrize(
    "cuts",
    [pytest.param((), id="read at once"), pytest.param((5, 6, 20), id="read in parts")],
)
def test_weights_follow_the_text(cuts):
    models = _parts()
    columns = [m.log_prob(NGRAMS[:, -m.order : -1], NGRAMS[:, -1]) for m in models]
    bins = build("mixture with bins", "sentence").bins
    start = np.random.default_rng(0).dirichlet([1, 1, 1], bins.number)
    of_ngrams = bins.find_bins(NGRAMS[:, :-1])
    assert len({*of_ngrams.tolist()}) > 1
    expected = _plain_loop(np.stack(columns, axis=1), start, of_ngrams, 4, 0.3)
    dynamic = DynamicMixture(Mixture(models, start, bins), chunk=4, rate=0.3)
    parts = np.split(NGRAMS, cuts)
    assert np.allclose(
        np.concatenate([dynamic.log_prob(p[:, :-1], p[:, -1]) for p in parts]), expected, atol=1e-12
    )
    assert np.allclose(dynamic.weights.sum(axis=1), 1)
    dynamic.reset()
    assert np.array_equal(dynamic.weights, start)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_build_nested, id="the weights of an inner mixture move, too"),
        pytest.param(
            lambda: Mixture([build("nplm", "sentence"), *_parts()[:2]], [0.2, 0.5, 0.3]),
            id="a network",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_tuned_figure_of_a_mixture_is_that_of_its_settings(make):
    model = make()
    held_out = make_text(3, "sentence")
    tuned = tune_dynamic(model, TEXT, held_out)
    assert tuned.settings.mixture_rate > 0 and tuned.dynamic < tuned.static
    assert tuned.static == pytest.approx(evaluate(model, held_out)["perplexity"], rel=1e-5)
    dynamic = make_dynamic(model, tuned.settings, tuned.mean_squares)
    figures = evaluate(dynamic, held_out)
    assert tuned.dynamic == pytest.approx(figures["perplexity"], rel=1e-5)


@pytest.mark.long
def test_tuning_finds_steps_for_a_changed_text_and_none_for_the_same():
    rng = np.random.default_rng(3)
    train = rng.choice(np.arange(4, 9), 4000, p=[0.4, 0.3, 0.2, 0.05, 0.05]).astype(np.int32)
    network = NPLM(V, 3, 4, 5, boundary="stream")
    network.set_unigram(np.bincount(train, minlength=V))
    network.compile("adam")
    network.fit(ngram_dataset(train, 3, 64, boundary="stream"), epochs=6, verbose=0, shuffle=False)
    tokens = 46 * 64  # whole chunks
    same = tune_dynamic(network, train, train[:tokens], "stream")
    assert 0.985 * same.static < same.dynamic <= same.static
    other = rng.choice(np.arange(4, 9), tokens, p=[0.05, 0.05, 0.2, 0.3, 0.4]).astype(np.int32)
    changed = tune_dynamic(network, train, other, "stream")
    assert changed.settings.rate > 0 and changed.dynamic < 0.7 * changed.static
