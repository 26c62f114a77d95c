"""Probability mass of a set of words: look-up and sum against plain sums."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.ngrams.mass import BackoffMass

V = 13


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.lists(st.integers(4, V - 1), max_size=7), min_size=1, max_size=12),
    st.integers(2, 5),
    st.sampled_from(["stream", "sentence"]),
    st.integers(0, V),
    st.integers(0, 1000),
    st.booleans(),
)
def test_mass_of_every_context_is_the_sum_of_the_words(sentences, order, boundary, first, seed, is_pruned):
    ids = np.array([4, 3] + [token for sentence in sentences for token in (*sentence, 3)], np.int32)
    model = kneser_ney(ids, V, order, boundary)
    if is_pruned:  # as in some ARPA files, in which the shorter n-gram is not listed
        for k, keys in enumerate(model.keys):
            kept = np.random.default_rng([seed, k]).random(len(keys)) < 0.6
            model.keys[k], model.log_probs[k] = keys[kept], model.log_probs[k][kept]
    chosen = np.arange(V) >= first
    mass = BackoffMass(model, chosen)
    contexts = np.random.default_rng(seed).integers(0, V, (60, order - 1))
    listed = [model.contexts.words(length) for length in range(1, order)]
    contexts = [contexts] + [np.pad(c, ((0, 0), (order - 1 - c.shape[1], 0))) for c in listed]  # every listed context
    contexts = np.concatenate(contexts).astype(np.int32)
    p = np.exp(model.next_log_probs(contexts), dtype=np.float64)
    expected = np.array([sum(row[w] for w in range(first, V)) for row in p])
    np.testing.assert_allclose(mass.look_up(contexts), expected, rtol=1e-5, atol=1e-7)
