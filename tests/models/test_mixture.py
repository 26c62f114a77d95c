"""Mixtures: weighted sums, fitted weights, contexts of several lengths, weights by frequency."""

import functools

import numpy as np
import pytest

from keras_nplm import Mixture, Uniform, UnigramCache, evaluate, fit_mixture
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.ngrams import (
    FrequencyBins,
    count_ngrams,
    deleted_interpolation,
    kneser_ney,
)

V = 12


def _text(seed: int, number: int = 600) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = 4 + rng.geometric(0.4, number) % 7  # id 11 is never seen
    ids[::9] = 3
    return np.append(ids, 3).astype(np.int32)


@functools.cache
def _count_based():
    text = _text(1)
    return [
        kneser_ney(text, V, 5, "stream"),
        deleted_interpolation(text, _text(2), V, 3, "stream"),
        kneser_ney(text, V, 2, "stream"),
        Uniform(V, "stream"),
    ]


def test_the_candidate_with_the_best_held_out_likelihood_is_chosen():
    held_out = _text(2, 1000)
    first, *others = [kneser_ney(_text(3), V, 4, "stream"), *_count_based()]
    fits = [fit_mixture([first, model, others[3]], held_out) for model in others[:3]]
    perplexities = [evaluate(mixture, held_out)["perplexity"] for mixture in fits]
    for candidates in (others[:3], others[2::-1]):
        mixture = fit_mixture([first, candidates, others[3]], held_out)
        assert mixture.models == [first, others[int(np.argmin(perplexities))], others[3]]
        assert evaluate(mixture, held_out)["perplexity"] == pytest.approx(
            min(perplexities), rel=1e-12
        )


def test_orders_of_a_mixture_are_those_of_its_longest_ngrams():
    short = kneser_ney(_text(1), V, 2)
    long = kneser_ney(_text(2), V, 4)
    mixture = Mixture([Uniform(V), Mixture([short, long], [0.5, 0.5])], [0.1, 0.9])
    cached = Mixture([mixture, UnigramCache(V, "sentence", length=9)], [0.9, 0.1])
    ngrams = extract_ngrams(_text(3, 60), cached.order, "sentence")
    contexts = ngrams[:, :-1]
    targets = ngrams[:, -1]
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
    held_out = _text(2)
    ngrams = _count_based()[:3:2]
    caches = [UnigramCache(V, "stream", decay, 10) for decay in (5.0, 50.0)]
    one = fit_mixture([ngrams, caches], held_out)
    other = fit_mixture([iter(caches), ngrams], held_out)
    assert one.models == other.models[::-1]
    figures = one.compute_figures()
    assert figures["decay"] == one.models[1].decay
    assert figures["weights"] == [[round(weight, 6) for weight in one.weights[0]]]


def test_candidates_are_chosen_beside_all_single_models():
    def mirror(ids):
        return np.where(ids > 3, 14 - ids, ids)

    near, nearer = (kneser_ney(_text(seed), V, 2, "stream") for seed in (1, 3))
    far = kneser_ney(mirror(_text(1)), V, 2, "stream")
    held_out = np.concatenate([_text(2, 600), mirror(_text(2, 400))])
    assert fit_mixture([[nearer, far], near], held_out).models == [far, near]


@pytest.mark.parametrize("boundary", ["stream", "sentence"])
def test_weights_depend_on_the_frequency_bin_of_the_context(boundary):
    text = _text(1)
    held_out = _text(2, 3000)
    bins = FrequencyBins.from_counts(count_ngrams(text, V, 3, boundary))
    models = [
        kneser_ney(text, V, 4, boundary),
        kneser_ney(text, V, 2, boundary),
        Uniform(V, boundary),
    ]
    mixture = fit_mixture(models, held_out, boundary, bins)
    assert mixture.weights.shape == (bins.number, 3)
    plain = fit_mixture(models, held_out, boundary)
    assert "by frequency" in repr(mixture) and "by frequency" not in repr(plain)
    assert (
        evaluate(mixture, held_out, boundary=boundary)["perplexity"]
        <= evaluate(plain, held_out, boundary=boundary)["perplexity"]
    )
    contexts = np.random.default_rng(3).integers(4, V, (40, 3))
    rows = mixture.weights[bins.find_bins(contexts)]
    assert len(np.unique(rows[:, 0])) > 1
    parts = [np.exp(model.next_log_probs(contexts[:, 4 - model.order :])) for model in models]
    expected = sum(rows[:, k, None] * part for k, part in enumerate(parts))
    np.testing.assert_allclose(np.exp(mixture.next_log_probs(contexts)), expected, atol=1e-7)
