"""n-gram counts and context frequencies against a loop."""

import collections

import numpy as np
import pytest

from keras_nplm.models.ngrams import ContextFrequencies, count_ngrams

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence")


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_counts_equal_those_of_a_loop(boundary, list_events):
    rng = np.random.default_rng(0)
    ids = rng.integers(4, V, 300).astype(np.int32)
    ids[::7] = 3
    counts = count_ngrams(ids, V, 4, boundary)
    expected = collections.Counter()
    for context, word in list_events(ids, 4, boundary):
        for k in range(1, len(context) + 2):
            expected[(*context[len(context) - k + 1 :], word)] += 1
    found = {}
    for k in range(1, 5):
        nodes, words = counts.nodes(k), counts.keys[k - 1] % V
        contexts = counts.contexts.words(k - 1)[nodes].tolist() if k > 1 else [[]] * len(words)
        found |= {(*c, w): n for c, w, n in zip(contexts, words.tolist(), counts.counts[k - 1].tolist(), strict=True)}
    assert found == dict(expected)
    frequencies = ContextFrequencies.from_counts(counts)
    contexts = rng.integers(4, V, (50, 3))
    for row, context in zip(frequencies.look_up(contexts).tolist(), contexts.tolist(), strict=True):
        totals = [sum(n for g, n in expected.items() if list(g[:-1]) == context[3 - k :]) for k in (1, 2, 3)]
        assert row == totals
    assert frequencies.tokens == sum(n for g, n in expected.items() if len(g) == 2)
