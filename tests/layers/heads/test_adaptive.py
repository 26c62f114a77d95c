"""Clusters of the adaptive head. Its scores: `tests/models/networks`."""

import numpy as np

from keras_nplm import AdaptiveHead

V = 30


def test_rare_words_have_fewer_features():
    head = AdaptiveHead(V, cutoffs=(8, 16))
    head.build((None, 20))
    assert [tuple(P.shape) for P in head.projections] == [(20, 5), (20, 4)]


def test_a_cluster_without_mass_starts_uniform():
    head = AdaptiveHead(V, cutoffs=(8, 16))
    head.build((None, 20))
    unigram = np.zeros(V)
    unigram[4:16] = 1 / 12
    head.set_unigram(unigram)
    found = head(np.zeros((1, 20), np.float32)).numpy()[0]
    np.testing.assert_allclose(found[4:16], 1 / 12, rtol=1e-5)
    assert 0 < found[16:].sum() < 1e-9
