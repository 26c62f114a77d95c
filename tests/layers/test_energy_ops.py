"""Energies v · tanh(z + t), their gradients and ln Z, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.layers.energy_ops import all_energies, energies, energy_log_normaliser

H = 5


def _random(*shapes) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("size, scales", [(40, (1, 1)), (700, (30, 30)), (40, (50, 1)), (40, (1, 50))])
def test_log_normaliser_in_blocks(size, scales):
    """One tile and several, a block that is not full, and hidden units whose exponentials would overflow."""
    contexts, words, v, b = _random((19, H), (size, H), H, size)
    contexts, words = contexts * np.float32(scales[0]), words * np.float32(scales[1])
    logits = np.tanh(contexts[:, None].astype(np.float64) + words) @ v + b
    weights = [keras.Variable(value, autocast=False) for value in (v, b)]
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), *weights)
    np.testing.assert_allclose(found, np.log(np.exp(logits).sum(axis=1)), rtol=1e-5, atol=2e-5)
    contexts[3, 2] = np.nan
    found = energy_log_normaliser(tf.constant(contexts), tf.constant(words), *weights)
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


def test_energies_of_few_words_with_a_v_of_each_context():
    """As dropout of hidden units gives it."""
    z, t, v = _random((7, H), (40, H), (7, H))
    expected = np.einsum("ijk,ik->ij", np.tanh(z[:, None] + t), v)
    np.testing.assert_allclose(energies(*map(tf.constant, (z, t, v))), expected, rtol=1e-4, atol=1e-5)


def test_energies_without_a_loop():
    """Several tiles of words, one not full; some runtimes have no loops."""
    z, t, v = map(tf.constant, _random((3, H), (1500, H), H))
    unrolled = tf.function(lambda contexts: all_energies(contexts, t, v, loop=False))
    np.testing.assert_allclose(unrolled(z), all_energies(z, t, v), atol=1e-5)
    operations = {operation.type for operation in unrolled.get_concrete_function(z).graph.get_operations()}
    assert not operations & {"While", "StatelessWhile", "PartitionedCall", "StatefulPartitionedCall"}
