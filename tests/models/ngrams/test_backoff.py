"""Back-off weights that make every context a distribution."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.models.ngrams import BackoffModel, count_ngrams

WORDS = (4, 5, 6)


@settings(max_examples=60)
@given(
    ids=st.lists(st.sampled_from(WORDS), min_size=1, max_size=40),
    order=st.integers(2, 4),
    discount=st.floats(0.05, 0.95),
)
def test_any_text_and_discount_makes_distributions(ids, order, discount):
    """A context may list every word of the text, so that no word is left for its discount."""
    counts = count_ngrams(np.array(ids, np.int32), 7, order, "stream")
    unigrams = np.full(7, -np.inf, np.float32)
    unigrams[counts.keys[0]] = np.log(counts.counts[0] / counts.counts[0].sum())
    log_probs = []
    for k in range(2, order + 1):
        nodes, number = counts.nodes(k), counts.counts[k - 1]
        log_prob = np.log((number - discount) / np.bincount(nodes, number)[nodes])
        log_probs.append(log_prob.astype(np.float32))
    model = BackoffModel.normalised(counts.contexts, unigrams, counts.keys[1:], log_probs)
    contexts = np.array([*itertools.product(WORDS, repeat=order - 1)], np.int32)
    p = np.exp(model.next_log_probs(contexts).astype(np.float64))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
