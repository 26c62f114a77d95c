"""The adaptive head: clusters of rare words, each computed only for its own words."""

import numpy as np

from keras_nplm import AdaptiveHead

V = 30
FEATURES = np.random.default_rng(0).normal(size=(9, 20)).astype(np.float32)


def softmax(y: np.ndarray) -> np.ndarray:
    powers = np.exp(y)
    return powers / powers.sum(axis=1, keepdims=True)


def test_probabilities_are_those_of_the_root_times_those_within_a_cluster():
    head = AdaptiveHead(V, cutoffs=(8, 16))
    found = np.exp(head(FEATURES))
    rng = np.random.default_rng(1)
    for weight in head.weights:
        weight.assign(rng.normal(0, 0.3, weight.shape))
    found = np.exp(head(FEATURES))
    U, b = (weight.numpy() for weight in head.root)
    root = softmax(FEATURES @ U.T + b)  # 8 words and 2 clusters
    assert root.shape == (9, 10)
    np.testing.assert_allclose(found[:, :8], root[:, :8], rtol=1e-4)
    for cluster, (first, last) in enumerate([(8, 16), (16, V)]):
        P = head.projections[cluster].numpy()
        U, b = (weight.numpy() for weight in head.clusters[cluster])
        within = softmax(FEATURES @ P @ U.T + b)
        expected = root[:, 8 + cluster, None] * within
        np.testing.assert_allclose(found[:, first:last], expected, rtol=1e-4)
    assert np.asarray(head.scores(FEATURES).log_z()).tolist() == [0] * 9


def test_rare_words_have_fewer_features():
    head = AdaptiveHead(V, cutoffs=(8, 16))
    head.build((None, 20))
    assert [tuple(P.shape) for P in head.projections] == [(20, 5), (20, 4)]


def test_default_cutoffs_are_a_ninth_and_two_fifths():
    assert AdaptiveHead(900).cutoffs == (100, 360)


def test_a_cluster_without_mass_starts_uniform():
    head = AdaptiveHead(V, cutoffs=(8, 16))
    head.build((None, 20))
    unigram = np.zeros(V)
    unigram[4:16] = 1 / 12
    head.set_unigram(unigram)
    found = np.exp(head(np.zeros((1, 20), np.float32)))[0]
    np.testing.assert_allclose(found[4:16], 1 / 12, rtol=1e-5)
    assert 0 < found[16:].sum() < 1e-9
