"""Energies v · tanh(z + t), their gradients and ln Z, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.energy_ops import all_energies, energies, energy_log_normaliser

V, H = 40, 5


@pytest.mark.parametrize("size, scales", [(40, (1, 1)), (700, (1, 1)), (700, (30, 30)), (40, (50, 1)), (40, (1, 50))])
def test_log_normaliser_in_blocks(size, scales):
    """One tile and several, a block that is not full, and hidden units whose exponentials would overflow."""
    rng = np.random.default_rng(0)
    contexts, words = (
        rng.normal(0, scale, (rows, H)).astype(np.float32) for rows, scale in zip((19, size), scales, strict=True)
    )
    v, bias = (keras.Variable(rng.normal(0, 2, shape).astype(np.float32), autocast=False) for shape in (H, size))
    logits = np.tanh(contexts[:, None].astype(np.float64) + words) @ v.numpy() + bias.numpy()
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), v, bias)
    np.testing.assert_allclose(found, np.log(np.exp(logits).sum(axis=1)), rtol=1e-5, atol=2e-5)


def test_log_normaliser_is_nan_for_a_context_with_nan():
    rng = np.random.default_rng(0)
    contexts, words = rng.normal(size=(19, H)).astype(np.float32), rng.normal(size=(V, H)).astype(np.float32)
    contexts[3, 2] = np.nan
    v, bias = keras.Variable(np.ones(H, np.float32)), keras.Variable(np.zeros(V, np.float32))
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), v, bias)
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


@pytest.mark.parametrize("function", [all_energies, energies])
def test_energies_and_their_gradients(function):
    rng = np.random.default_rng(0)
    z, t, v = rng.normal(size=(7, H)), rng.normal(size=(V, H)), rng.normal(size=H)
    upstream = rng.normal(size=(7, V))
    a = np.tanh(z[:, None] + t)  # [7, V, H]
    slope = upstream[:, :, None] * (1 - a**2) * v
    contexts, words = tf.constant(z, tf.float32), tf.constant(t, tf.float32)
    variable = keras.Variable(v.astype(np.float32), autocast=False)
    with tf.GradientTape() as tape:
        tape.watch([contexts, words])
        found = function(contexts, words, variable)
        total = tf.reduce_sum(found * upstream)
    np.testing.assert_allclose(found, a @ v, rtol=1e-4, atol=1e-5)
    gradients = tape.gradient(total, [contexts, words, variable.value])
    expected = slope.sum(axis=1), slope.sum(axis=0), np.einsum("ij,ijk->k", upstream, a)
    for gradient, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=1e-4)


def test_energies_without_a_loop():
    """Several tiles of words, one not full; some runtimes have no loops."""
    rng = np.random.default_rng(0)
    z, t, v = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ((3, H), (1500, H), (H,)))
    unrolled = tf.function(lambda contexts: all_energies(contexts, t, v, loop=False))
    np.testing.assert_allclose(unrolled(z), all_energies(z, t, v), atol=1e-5)
    operations = {operation.type for operation in unrolled.get_concrete_function(z).graph.get_operations()}
    assert not operations & {"While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"}


def test_energies_with_one_v_per_context():
    """As dropout of hidden units makes it."""
    rng = np.random.default_rng(0)
    z, t, v = rng.normal(size=(7, H)), rng.normal(size=(4, H)), rng.normal(size=(7, H))
    found = energies(*(tf.constant(value, tf.float32) for value in (z, t, v)))
    expected = np.einsum("ijk,ik->ij", np.tanh(z[:, None] + t), v)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
