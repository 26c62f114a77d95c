"""Entropy pruning: against brute force, and the n-grams that must stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.models.ngrams import BackoffModel, kneser_ney, prune
from keras_nplm.models.ngrams.pruning import weigh_ngrams
from keras_nplm.models.ngrams.tables import ContextTrie

V = 9
BOUNDARIES = ("stream", "sentence")


def compute_perplexity_changes(model):
    orders = range(2, model.order + 1)
    return [weigh_ngrams(model, k).compute_changes()[0] for k in orders]


def _text(boundary, seed=4, tokens=160):
    rng = np.random.default_rng(seed)
    ids = np.minimum(rng.geometric(0.4, tokens) + 3, V - 1).astype(np.int32)
    ids[rng.random(tokens) < 0.15] = 3
    return np.append(ids, 3).astype(np.int32)


def _without(model, k, place):
    keys = [np.delete(keys, place) if i == k - 2 else keys for i, keys in enumerate(model.keys)]
    log_probs = [np.delete(p, place) if i == k - 2 else p for i, p in enumerate(model.log_probs)]
    return BackoffModel.normalised(model.contexts, model.unigrams, keys, log_probs)


def _probability(model, words):
    """P of words from the start of a text, the first of them as if it had no context, <s> taken for
    </s>.
    """
    p = 1.0
    for i, word in enumerate(words):
        context = ([0] * (model.order - 1) + words[:i])[-(model.order - 1) :]
        p *= float(np.exp(model.next_log_probs(np.array([context]))[0, 3 if word == 2 else word]))
    return p


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_changes_equal_the_entropy_of_removing_the_ngram(boundary):
    model = kneser_ney(_text(boundary), V, 3, boundary)
    tested = 0
    for k, changes in enumerate(compute_perplexity_changes(model), start=2):
        ngrams = model.ngrams(k)
        for place in range(0, len(ngrams), 3):
            h = ngrams[place, :-1].tolist()
            context = np.array([[0, 0, *h][-2:]])
            before, after = (
                m.next_log_probs(context)[0].astype(float)
                for m in (model, _without(model, k, place))
            )
            there = np.isfinite(before)
            entropy = (np.exp(before[there]) * (before[there] - after[there])).sum()
            assert changes[place] == pytest.approx(
                np.expm1(_probability(model, h) * entropy), abs=2e-7, rel=1e-3
            )
            tested += 1
    assert tested > 30 and max(map(np.max, compute_perplexity_changes(model))) > 1e-4


@settings(max_examples=12)
@given(
    st.integers(0, 999),
    st.sampled_from(BOUNDARIES),
    st.sampled_from([1e-5, 1e-3, 1e-2]),
    st.integers(2, 4),
)
def test_kept_ngrams_keep_their_parts_and_probabilities(seed, boundary, threshold, order):
    model = kneser_ney(_text(boundary, seed), V, order, boundary)
    pruned = prune(model, threshold)
    for k in range(2, order + 1):
        table, kept = ([*map(tuple, each.ngrams(k).tolist())] for each in (model, pruned))
        p = dict(zip(table, model.log_probs[k - 2].tolist(), strict=True))
        assert [p[ngram] for ngram in kept] == pruned.log_probs[k - 2].tolist()
        lower = {*map(tuple, pruned.ngrams(k - 1).tolist())} if k > 2 else set()
        assert k == 2 or all(ngram[:-1] in lower and ngram[1:] in lower for ngram in kept)
        assert pruned.contexts.sizes[k - 2] == (
            V if k == 2 else len({ngram[:-1] for ngram in kept})
        )
    contexts = np.random.default_rng(seed).choice([0, 1, 2, *range(4, V)], (50, order - 1))
    np.testing.assert_allclose(
        np.exp(pruned.next_log_probs(contexts).astype(float)).sum(axis=1), 1, atol=1e-5
    )


@pytest.mark.filterwarnings("error")
def test_an_ngram_whose_context_has_probability_0_goes_first():
    p = np.array([0.5, 0.5, 0, 0])  # of words of probability 0, one is a context, one has a bigram
    with np.errstate(divide="ignore"):
        unigrams = np.log(p).astype(np.float32)
    keys = np.array([0 * 4 + 1, 2 * 4 + 3])
    listed = np.log([0.9, 0.5]).astype(np.float32)
    model = BackoffModel.normalised(ContextTrie(4, []), unigrams, [keys], [listed])
    assert compute_perplexity_changes(model)[0].tolist()[1] == 0
    assert prune(model, threshold=1e-12).ngrams(2).tolist() == [[0, 1]]
    assert not len(prune(model, threshold=1e9).ngrams(2))


def test_a_context_that_lists_all_words_keeps_an_ngram():
    unigrams = np.log([0.25, 0.25, 0.25, 0.25]).astype(np.float32)
    sharp = np.log([0.97, 0.01, 0.01, 0.01]).astype(np.float32)
    model = BackoffModel.normalised(ContextTrie(4, []), unigrams, [1 * 4 + np.arange(4)], [sharp])
    changes = compute_perplexity_changes(model)[0]
    np.testing.assert_allclose(changes, 0, atol=1e-6)  # any one could go: γ would be what it had
    pruned = prune(model, 1e-3)
    assert pruned.num_ngrams == [4, 1]
    np.testing.assert_allclose(pruned.next_log_probs(np.array([[1]]))[0], sharp, atol=1e-5)
