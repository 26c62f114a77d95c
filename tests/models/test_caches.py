"""Caches: the formulas, exact normalisation, contexts in any order, contexts of one text,
saving.
"""

import functools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, ContinuousCache, NgramCache, UnigramCache
from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models import caches
from tests.language_models import V, build

N = 3
LENGTH = 7
boundaries = st.sampled_from(["stream", "sentence", "text"])
FACTORS = (3.0, 5.0, 2.0)
kinds = pytest.mark.parametrize("kind", ["unigram", "ngram", "continuous"])
windows = st.lists(
    st.integers(0, V - 1), min_size=LENGTH + len(FACTORS), max_size=LENGTH + len(FACTORS)
)


@functools.cache
def _compute_features(context: tuple[int, ...]) -> np.ndarray:
    """Return h of one context; the networks of all boundaries have the same weights."""
    features = build("nplm", "stream").compute_features(np.array([context], np.int32))
    return np.asarray(features)[0]


def _build(kind: str, boundary: str, length: int = LENGTH) -> caches.Cache:
    if kind == "unigram":
        return UnigramCache(V, boundary, decay=2.5, length=length)
    if kind == "ngram":
        return NgramCache(V, boundary, decay=2.5, length=length, factors=FACTORS)
    return ContinuousCache(build("nplm", boundary), flatness=1.5, length=length)


def _weigh_plainly(cache: caches.Cache, context: list[int]) -> dict[int, float]:
    """Return the weight of each cached word, summed in a Python loop."""
    weights: dict[int, float] = {}
    for place, word in enumerate(context):
        if isinstance(cache, UnigramCache):
            weight = np.exp(-(len(context) - place) / cache.decay)
        elif isinstance(cache, NgramCache):
            if place < len(FACTORS):
                continue
            weight = np.exp(-(len(context) - place) / cache.decay)
            for back, factor in enumerate(FACTORS, start=1):
                if context[place - back] != context[-back]:
                    break
                weight *= factor
        elif place >= N - 1:
            now, then = (
                _compute_features(tuple(words))
                for words in (context[-(N - 1) :], context[place - N + 1 : place])
            )
            weight = np.exp(cache.flatness * now @ then)
        else:
            continue
        if word in predicted_ids(V, cache.boundary):
            weights[word] = weights.get(word, 0.0) + weight
    return weights


def _predict_plainly(cache: caches.Cache, context: list[int]) -> np.ndarray:
    weights = _weigh_plainly(cache, context) or dict.fromkeys(
        predicted_ids(V, cache.boundary).tolist(), 1.0
    )
    return np.array([weights.get(word, 0.0) for word in range(V)]) / sum(weights.values())


@kinds
@settings(max_examples=15)
# phrases that come again
@example([[4, 5, 6, 7, 5, 6, 8, 4, 5, 6], [2, 4, 5, 2, 4, 5, 3, 2, 4, 5]], "stream")
@given(st.lists(windows, min_size=1, max_size=4), boundaries)
def test_cache_is_the_weighted_share_of_its_words(kind, contexts, boundary):
    cache = _build(kind, boundary)
    contexts = np.array(contexts)[:, -(cache.order - 1) :]
    expected = np.stack([_predict_plainly(cache, context) for context in contexts.tolist()])
    found = np.exp(cache.next_log_probs(contexts))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    for word in range(V):
        targets = np.full(len(contexts), word)
        np.testing.assert_allclose(
            np.exp(cache.log_prob(contexts, targets)), found[:, word], rtol=1e-5
        )


class Counting(NPLM):
    """A network that counts the contexts whose features it computes."""

    computed = 0

    def compute_features(self, context_ids):
        self.computed += len(context_ids)
        return super().compute_features(context_ids)


def test_features_of_a_text_are_computed_once_per_word():
    network = Counting(V, order=N, embedding_dim=3, hidden_units=4)
    cache = ContinuousCache(network, 1.0, LENGTH)
    # more words than have their features in memory together
    ids = np.random.default_rng(2).integers(4, V, 40_000)
    ngrams = extract_ngrams(ids, cache.order, "stream")
    contexts = ngrams[:, :-1]
    found = cache.log_prob(contexts, ngrams[:, -1])
    in_two_pieces = 2 * len({tuple(context) for context in ngrams[:, -N:-1].tolist()})
    assert network.computed <= in_two_pieces + 2 * cache.order
    some = np.random.default_rng(3).integers(0, len(ngrams), 30)  # contexts in any order
    np.testing.assert_allclose(
        found[some], cache.log_prob(contexts[some], ngrams[some, -1]), rtol=1e-5
    )
