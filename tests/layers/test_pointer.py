"""The pointer: copies of the context's words as outputs of the same softmax."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm.layers.heads.linear import LinearHead
from keras_nplm.layers.pointer import Copies, Pointer
from keras_nplm.layers.segments import Context

_SCORES = st.floats(-40, 40, width=32)


@settings(deadline=None, max_examples=15)
@given(st.data(), st.integers(1, 6), st.integers(1, 4))
def test_copies_are_added_in_all_ways_alike(data, width, number):
    scores = data.draw(arrays(np.float32, (number, width), elements=_SCORES))
    words = data.draw(arrays(np.int32, (number, width), elements=st.integers(0, 6)))
    y = data.draw(arrays(np.float32, (number, 7), elements=_SCORES))
    copies = Copies(tf.constant(np.exp(scores)[:, :, None]), tf.constant(words))
    expected = y.astype(np.float64)
    for (row, place), word in np.ndenumerate(words):
        expected[row, word] = np.logaddexp(expected[row, word], scores[row, place])
    few = [3, 3, 0, 6]
    assert_close(copies.add_to_logits(tf.constant(y)), expected)
    of_few = copies.add_to_logits_of(tf.constant(y[:, few]), tf.constant(few))
    assert_close(of_few, expected[:, few])
    of_one = copies.add_to_logit(tf.constant(y[:, 2]), tf.fill([number], 2))
    assert_close(of_one, expected[:, 2])
    log_z = y[:, 0]
    sums = np.logaddexp.reduce(np.column_stack([scores, log_z]), axis=1)
    assert_close(copies.add_to_normaliser(tf.constant(log_z)), sums)


def assert_close(found: tf.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_a_position_after_the_last_words_before_the_target_is_more_probable():
    pointer = Pointer(dtype="float64")
    rng = np.random.default_rng(0)
    ids = rng.integers(4, 6, (40, 9))
    features = rng.normal(size=(40, 3))
    vectors = rng.normal(size=(40, 9, 2))
    pointer.build(features.shape, vectors.shape)
    plain = pointer(features, vectors, ids).numpy()
    r = [1.0, 2.0, 4.0]
    pointer.r.assign(r)
    found = pointer(features, vectors, ids).numpy()
    added = np.log(found / (1 - found)) - np.log(plain / (1 - plain))
    for row, i in np.ndindex(40, 9):
        expected = 0.0
        for k in (1, 2, 3):
            if i >= 3 and (ids[row, i - k : i] == ids[row, -k:]).all():
                expected += r[k - 1]
        assert added[row, i] == pytest.approx(expected, abs=1e-9)


def test_pads_and_begins_of_sentences_are_never_copied():
    pointer = Pointer()
    ids = np.array([[0, 2, 4, 5, 1, 3]], np.int32)
    pointer.build((1, 3), (1, 6, 2))
    a = pointer(np.ones((1, 3), np.float32), np.ones((1, 6, 2), np.float32), ids).numpy()[0]
    assert (a > 0).tolist() == [False, False, True, True, True, True]


def test_words_outside_a_short_list_are_not_copied():
    pointer = Pointer()
    pointer.build((1, 3), (1, 6, 2))
    ids = tf.constant([[4, 9, 6, 5, 29, 8]])
    context = Context(tf.ones((1, 12)), tf.ones((1, 6, 2)), ids, starts=None, num_targets=1)
    head = LinearHead(30, num_outputs=9)
    copies = pointer.find_copies(tf.ones((1, 3)), context, head)
    assert (copies.weights[0, :, 0].numpy() > 0).tolist() == [True, False, True, True, False, True]
    assert copies.ids.numpy().max() < 9


def test_a_thousand_positions_start_with_less_weight_than_the_vocabulary():
    pointer = Pointer()
    pointer.build((1, 3), (1, 1000, 2))
    a = 1 / (1 + np.exp(-pointer.u.numpy()))
    assert np.diff(a[:900]).min() > 0
    assert np.ptp(a[900:]) == 0
    assert 0.4 < a.sum() < 0.6
