"""Copies of the context's words, and their start. Their weights: `tests/models/networks`."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm.layers.pointer import CopyScores, Pointer
from keras_nplm.layers.scores import StoredScores

_SCORES = st.floats(-40, 40, width=32)


@settings(max_examples=15)
@given(st.data(), st.integers(1, 6), st.integers(1, 4))
def test_copies_are_added_in_all_ways_alike(data, width, number):
    scores = data.draw(arrays(np.float32, (number, width), elements=_SCORES))
    words = data.draw(arrays(np.int32, (number, width), elements=st.integers(0, 6)))
    y = data.draw(arrays(np.float32, (number, 7), elements=_SCORES))
    weights = tf.constant(np.exp(scores)[:, :, None])
    copies = CopyScores(StoredScores(tf.constant(y)), weights, tf.constant(words))
    expected = y.astype(np.float64)
    for (row, place), word in np.ndenumerate(words):
        expected[row, word] = np.logaddexp(expected[row, word], scores[row, place])
    few = [3, 3, 0, 6]
    assert_close(copies.logits(), expected)
    assert_close(copies.logits_of(tf.constant(few)), expected[:, few])
    assert_close(copies.logit(tf.fill([number], 2)), expected[:, 2])
    assert_close(copies.log_z(), np.logaddexp.reduce(expected, axis=1))


def assert_close(found: tf.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_a_thousand_positions_start_with_less_weight_than_the_vocabulary():
    pointer = Pointer()
    pointer.build((1, 3), (1, 1000, 2))
    a = 1 / (1 + np.exp(-pointer.u.numpy()))
    assert np.diff(a[:900]).min() > 0
    assert np.ptp(a[900:]) == 0
    assert 0.4 < a.sum() < 0.6
