"""Energies v · tanh(z + t), their gradients and ln Z, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.energy_ops import all_energies, energies, energy_log_normaliser

H = 5


def make_arrays(contexts: int, words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random contexts z, words t and v."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(contexts, H)).astype(np.float32)
    t = rng.normal(size=(words, H)).astype(np.float32)
    v = rng.normal(size=H).astype(np.float32)
    return z, t, v


@pytest.mark.parametrize(
    "size, scale_of_contexts, scale_of_words",
    [
        pytest.param(40, 1, 1, id="moderate numbers"),
        pytest.param(700, 30, 30, id="great numbers"),
        pytest.param(40, 50, 1, id="exponentials of contexts would overflow"),
        pytest.param(40, 1, 50, id="exponentials of words would overflow"),
    ],
)
def test_log_normaliser_of_any_numbers(size, scale_of_contexts, scale_of_words):
    contexts, words, v = make_arrays(19, size)
    contexts *= np.float32(scale_of_contexts)
    words *= np.float32(scale_of_words)
    b = np.random.default_rng(1).normal(size=size).astype(np.float32)
    logits = np.tanh(contexts[:, None].astype(np.float64) + words) @ v + b
    weights = [tf.constant(v), keras.Variable(b, autocast=False)]  # as a head has them
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), *weights)
    np.testing.assert_allclose(found, np.logaddexp.reduce(logits, axis=1), rtol=1e-5, atol=2e-5)
    contexts[3, 2] = np.nan
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), *weights)
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


def test_energies_of_few_words_with_a_v_of_each_context():
    """As dropout of hidden units gives it."""
    z, t, _ = make_arrays(7, 40)
    v = np.random.default_rng(1).normal(size=(7, H)).astype(np.float32)
    expected = np.einsum("ijk,ik->ij", np.tanh(z[:, None] + t), v)
    found = energies(tf.constant(z), tf.constant(t), tf.constant(v))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_energies_of_all_words_and_their_gradient():
    """Several tiles of words, one not full, with a loop over them and without."""
    z, t, v = make_arrays(4, 1500)
    upstream = np.random.default_rng(2).normal(size=(4, 1500)).astype(np.float32)
    inputs = [tf.constant(array) for array in (z, t, v)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        found = all_energies(*inputs)
    gradients = tape.gradient(found, inputs, output_gradients=tf.constant(upstream))
    a = np.tanh(z[:, None] + t)  # [B, |V|, h]
    slope = (1 - a**2) * upstream[:, :, None]
    np.testing.assert_allclose(found, a @ v, atol=1e-5)
    np.testing.assert_allclose(all_energies(*inputs, loop=False), a @ v, atol=1e-5)
    np.testing.assert_allclose(gradients[0], slope.sum(axis=1) * v, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(gradients[1], slope.sum(axis=0) * v, atol=1e-4)
    expected = np.einsum("ij,ijk->k", upstream, a)
    np.testing.assert_allclose(gradients[2], expected, rtol=1e-4, atol=1e-3)
