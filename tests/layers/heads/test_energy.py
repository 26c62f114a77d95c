"""Dropout of the energy head. Its scores: `tests/models/networks`."""

import keras
import numpy as np

from keras_nplm import EnergyHead

V = 30
M = 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(9, 6)).astype(np.float32)
C = RNG.normal(size=(V, M)).astype(np.float32)


def test_dropout_leaves_out_the_same_units_for_all_words():
    keras.utils.set_random_seed(0)
    head = EnergyHead(V, hidden_units=50, dropout=0.5)
    head.tie(keras.Variable(C, autocast=False))
    head.build((None, 6))
    scores = head.scores(FEATURES, training=True)
    v = scores.v.numpy()
    is_kept = v != 0
    assert v.shape == (9, 50)
    assert 0.4 < is_kept.mean() < 0.6
    doubled = np.broadcast_to(2 * head.v.numpy(), v.shape)
    np.testing.assert_allclose(v[is_kept], doubled[is_kept], rtol=1e-5)
    words = np.array([4, 9], np.int32)
    chosen = scores.logits_of(words).numpy()
    np.testing.assert_allclose(scores.logit(np.full(9, 9, np.int32)), chosen[:, 1], atol=1e-4)
    taken = scores.take(np.array([3, 5], np.int32))
    np.testing.assert_allclose(taken.logits_of(words), chosen[[3, 5]], atol=1e-4)
    np.testing.assert_array_equal(head.scores(FEATURES).v, head.v.numpy())  # not outside training
