"""Embedding lookup: sparse gradients, sums of repeated rows."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.lookup import rows, sum_repeated_rows


@pytest.mark.parametrize("sum_gradient", [False, True])
def test_rows_have_a_sparse_gradient_and_ids_are_clipped(sum_gradient):
    variable = keras.Variable(np.arange(8.0).reshape(4, 2), autocast=False)
    with tf.GradientTape() as tape:
        found = rows(variable, np.array([1, 3, 1, 99]), sum_gradient)
        total = tf.reduce_sum(found)
    assert found.numpy()[:, 0].tolist() == [2, 6, 2, 6]
    gradient = tape.gradient(total, variable.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.indices.numpy().tolist() == ([1, 3] if sum_gradient else [1, 3, 1, 3])
    assert tf.convert_to_tensor(gradient).numpy()[:, 0].tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize("jit", [False, True])
def test_repeated_rows_are_summed(jit):
    ids, values = np.array([7, 3, 7, 0, 7], np.int32), np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    distinct, sums = tf.function(sum_repeated_rows, jit_compile=jit)(tf.constant(ids), tf.constant(values))
    assert sorted(distinct.numpy()) == [0, 3, 7]
    for row, found in zip(distinct.numpy(), sums.numpy(), strict=True):
        np.testing.assert_allclose(found, values[ids == row].sum(axis=0), rtol=1e-6)
