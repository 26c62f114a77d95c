"""Sums and rows of segments, against NumPy. Whole segments: see `test_every_network.py`."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.segments import sum_until, take_rows

VECTORS = np.random.default_rng(0).normal(size=(3, 21, 2)).astype(np.float32)


def test_rows_are_taken_by_their_place_in_each_segment():
    places = np.array([[[0, 20], [3, 3]], [[1, 2], [4, 5]], [[9, 8], [7, 6]]], np.int32)
    found = take_rows(tf.constant(VECTORS), tf.constant(places))
    expected = np.stack([VECTORS[s][places[s]] for s in range(3)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("block", [1, 4, 16, 21, 32])
def test_sums_until_a_place_whatever_the_block(block):
    places = np.arange(21, dtype=np.int32)[None, :, None]
    found = sum_until(tf.constant(VECTORS), tf.constant(places), block)
    np.testing.assert_allclose(found[:, :, 0], np.cumsum(VECTORS, axis=1), atol=1e-5)
