"""The pointer: copies of the context's words as outputs of the same softmax."""

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm.layers.pointer import Copies, Pointer

_SCORES = st.floats(-40, 40, width=32)


@settings(deadline=None, max_examples=15)
@given(st.data(), st.integers(1, 6), st.integers(1, 4))
def test_copies_are_added_in_all_ways_alike(data, width, number):
    scores = data.draw(arrays(np.float32, (number, width), elements=_SCORES))
    words = data.draw(arrays(np.int32, (number, width), elements=st.integers(0, 6)))
    y = data.draw(arrays(np.float32, (number, 7), elements=_SCORES))
    copies, expected = Copies(tf.constant(np.exp(scores)[:, :, None]), tf.constant(words)), y.astype(np.float64)
    for (row, place), word in np.ndenumerate(words):
        expected[row, word] = np.logaddexp(expected[row, word], scores[row, place])
    few = [3, 3, 0, 6]
    for found, wanted in [
        (copies.add_to_logits(tf.constant(y)), expected),
        (copies.add_to_logits_of(tf.constant(y[:, few]), tf.constant(few)), expected[:, few]),
        (copies.add_to_logit(tf.constant(y[:, 2]), tf.fill([number], 2)), expected[:, 2]),
        (copies.add_to_normaliser(tf.constant(y[:, 0])), np.logaddexp.reduce(np.column_stack([scores, y[:, 0]]), 1)),
    ]:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


def test_a_position_after_the_last_words_before_the_target_is_more_probable():
    pointer, rng = Pointer(dtype="float64"), np.random.default_rng(0)
    ids, features, vectors = rng.integers(4, 6, (40, 9)), rng.normal(size=(40, 3)), rng.normal(size=(40, 9, 2))
    pointer.build(features.shape, vectors.shape)
    plain = pointer(features, vectors, ids).numpy()
    pointer.r.assign(r := [1.0, 2.0, 4.0])
    found = pointer(features, vectors, ids).numpy()
    added = np.log(found / (1 - found)) - np.log(plain / (1 - plain))
    for row, i in np.ndindex(40, 9):
        runs = [r[k - 1] for k in (1, 2, 3) if i >= 3 and (ids[row, i - k : i] == ids[row, -k:]).all()]
        assert abs(added[row, i] - sum(runs)) < 1e-9


def test_a_thousand_positions_start_with_less_weight_than_the_vocabulary():
    (pointer := Pointer()).build((1, 3), (1, 1000, 2))
    a = 1 / (1 + np.exp(-pointer.u.numpy()))
    assert np.diff(a[:900]).min() > 0 and np.ptp(a[900:]) == 0 and 0.4 < a.sum() < 0.6
