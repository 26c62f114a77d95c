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
    # of all words, as a few contexts have it
    few = scores.take(np.array([3, 5], np.int32))
    np.testing.assert_allclose(few.logits(), scores.logits().numpy()[[3, 5]], atol=1e-4)
    assert (head.scores(FEATURES).v == head.v.numpy()).numpy().all()  # not outside training
