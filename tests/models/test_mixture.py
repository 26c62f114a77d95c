"""Mixtures: weighted sums, fitted weights, contexts of several lengths, weights by frequency."""

import numpy as np
import pytest

from keras_nplm import Mixture, Uniform, UnigramCache, evaluate, fit_mixture, kneser_ney
from keras_nplm.data.ngram_arrays import extract_ngrams
from tests.language_models import V, build, make_text

HELD_OUT = make_text(3, "stream", 1000)


def _list_ngram_models():
    """Return models of three orders, and of none."""
    low = kneser_ney(make_text(1, "stream"), V, 2, "stream")
    return [*(build(name, "stream") for name in ("kneser-ney", "deleted-interpolation")), low]


def test_the_candidate_with_the_best_held_out_likelihood_is_chosen():
    candidates = _list_ngram_models()
    first = kneser_ney(make_text(4, "stream"), V, 4, "stream")
    uniform = build("uniform", "stream")
    fits = [fit_mixture([first, model, uniform], HELD_OUT) for model in candidates]
    perplexities = [evaluate(mixture, HELD_OUT)["perplexity"] for mixture in fits]
    best = candidates[int(np.argmin(perplexities))]
    for given in (candidates, candidates[::-1]):
        mixture = fit_mixture([first, given, uniform], HELD_OUT)
        assert mixture.models == [first, best, uniform]
        perplexity = evaluate(mixture, HELD_OUT)["perplexity"]
        assert perplexity == pytest.approx(min(perplexities), rel=1e-12)


def test_orders_of_a_mixture_are_those_of_its_longest_ngrams():
    short = kneser_ney(make_text(1, "sentence"), V, 2)
    long = kneser_ney(make_text(2, "sentence"), V, 4)
    mixture = Mixture([Uniform(V), Mixture([short, long], [0.5, 0.5])], [0.1, 0.9])
    cached = Mixture([mixture, UnigramCache(V, "sentence", length=9)], [0.9, 0.1])
    ngrams = extract_ngrams(HELD_OUT[:60], cached.order, "sentence")
    contexts, targets = ngrams[:, :-1], ngrams[:, -1]
    of_parts = [
        model.find_orders(contexts[:, 1 - model.order :], targets) for model in (short, long)
    ]
    expected = np.maximum(*of_parts)
    assert len(set(expected)) > 2
    for model in (mixture, cached):
        found = model.find_orders(contexts[:, 1 - model.order :], targets)
        assert found.tolist() == expected.tolist()
    # without n-grams all words of the context count
    without = Mixture([Uniform(V), Uniform(V)], [0.5, 0.5])
    assert set(without.find_orders(contexts[:, -1:], targets)) == {2}


def test_candidates_may_stand_in_any_order():
    """A cache alone gives new words the probability 0."""
    ngrams = _list_ngram_models()
    caches = [UnigramCache(V, "stream", decay, 10) for decay in (5.0, 50.0)]
    one = fit_mixture([ngrams, caches], HELD_OUT)
    other = fit_mixture([iter(caches), ngrams], HELD_OUT)
    assert one.models == other.models[::-1]
    figures = one.compute_figures()
    assert figures["decay"] == one.models[1].decay
    assert figures["weights"] == [[round(weight, 6) for weight in one.weights[0]]]


def test_candidates_are_chosen_beside_all_single_models():
    def mirror(ids):
        return np.where(ids > 3, V + 3 - ids, ids)

    near, nearer = (kneser_ney(make_text(seed, "stream"), V, 2, "stream") for seed in (1, 4))
    far = kneser_ney(mirror(make_text(1, "stream")), V, 2, "stream")
    held_out = np.concatenate([HELD_OUT[:600], mirror(HELD_OUT[:400])])
    assert fit_mixture([[nearer, far], near], held_out).models == [far, near]


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_weights_depend_on_the_frequency_bin_of_the_context(boundary):
    bins = build("mixture with bins", boundary).bins
    low = kneser_ney(make_text(1, boundary), V, 2, boundary)
    models = [build("kneser-ney", boundary), low, build("uniform", boundary)]
    mixture, plain = (fit_mixture(models, HELD_OUT, boundary, given) for given in (bins, None))
    assert mixture.weights.shape == (bins.number, 3)
    assert "by frequency" in repr(mixture) and "by frequency" not in repr(plain)
    perplexity, of_plain = (
        evaluate(model, HELD_OUT, boundary=boundary)["perplexity"] for model in (mixture, plain)
    )
    assert perplexity <= of_plain
    contexts = np.random.default_rng(3).integers(4, V, (40, 3))
    rows = mixture.weights[bins.find_bins(contexts)]
    assert len(np.unique(rows[:, 0])) > 1
    parts = [np.exp(model.next_log_probs(contexts[:, 4 - model.order :])) for model in models]
    expected = sum(rows[:, k, None] * part for k, part in enumerate(parts))
    np.testing.assert_allclose(np.exp(mixture.next_log_probs(contexts)), expected, atol=1e-7)
