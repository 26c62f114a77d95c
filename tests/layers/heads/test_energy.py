"""The energy head: the hidden layer sees context and word; dropout; what it refuses."""

import keras
import numpy as np
import pytest

from keras_nplm import EnergyHead

V = 30
M = 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(9, 6)).astype(np.float32)
C = RNG.normal(size=(V, M)).astype(np.float32)


def build_head(**options) -> EnergyHead:
    head = EnergyHead(V, hidden_units=50, **options)
    head.tie(keras.Variable(C, autocast=False))
    head.build((None, 6))
    head.b.assign(RNG.normal(size=V))
    return head


def test_energies_are_those_of_the_formula():
    head = build_head()
    y = head(FEATURES).numpy()
    words = C.copy()
    words[0] = 0  # `<pad>`
    for row, word in np.ndindex(9, V):
        joined = np.concatenate([FEATURES[row], words[word]])
        a = np.tanh(head.d.numpy() + joined @ head.H.numpy())
        expected = head.b.numpy()[word] + a @ head.v.numpy()
        assert y[row, word] == pytest.approx(expected, abs=1e-4)


def test_C_is_not_a_weight_of_the_head():
    head = build_head()
    assert {weight.name for weight in head.weights} == {"H", "d", "v", "b"}
    stored: dict = {}
    head.save_own_variables(stored)
    assert len(stored) == 4


def test_dropout_leaves_out_the_same_units_for_all_words():
    keras.utils.set_random_seed(0)
    head = build_head(dropout=0.5)
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
