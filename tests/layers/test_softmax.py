"""The tiled softmax, ln Z and the losses of negative samples, with their gradients, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers.softmax as softmax
from keras_nplm.layers.softmax import linear_softmax, log_normaliser, noise_loss

W, B = 6, 9
FEATURES = np.random.default_rng(1).normal(size=(B, W)).astype(np.float32)


def _variables(size: int, shift: float = 0.0) -> list[keras.Variable]:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.3, (size, W)), rng.normal(0, 0.3, size) + shift
    return [keras.Variable(value.astype(np.float32), autocast=False) for value in values]


def _oracle(kernel, bias, targets, q, upstream):
    """ln Z, y_t, y_q and the gradients of their sum weighted by `upstream`, in float64."""
    f, u, b = (np.asarray(a, np.float64) for a in (FEATURES, kernel, bias))
    y = f @ u.T + b
    log_z = np.logaddexp.reduce(y, axis=1)
    values = log_z, y[np.arange(B), targets], y @ q
    dy = upstream[0][:, None] * np.exp(y - log_z[:, None])
    dy[np.arange(B), targets] += upstream[1]
    dy += upstream[2][:, None] * q
    return values, (dy @ u, dy.T @ f, dy.sum(axis=0))


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("whole", [0, 1 << 22])
@pytest.mark.parametrize("size, shift", [(30, 0), (1300, 200), (1300, -200)])
def test_tiled_softmax_and_its_gradient(size, shift, whole, jit, monkeypatch):
    """One tile and several. Logits whose exponentials overflow or underflow."""
    monkeypatch.setattr(softmax, "_WHOLE", whole)
    monkeypatch.setattr(softmax, "_CACHED", 1)  # the smallest tiles
    kernel, bias = _variables(size, shift)
    targets = np.random.default_rng(3).integers(0, size, B).astype(np.int32)
    q = np.random.default_rng(4).dirichlet(np.ones(size))
    upstream = np.random.default_rng(5).normal(size=(3, B))

    @tf.function(jit_compile=jit)
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = linear_softmax(features, kernel, bias, targets, "float32", tf.constant(q, tf.float32))
            total = tf.reduce_sum(tf.stack(values) * tf.constant(upstream, tf.float32))
        return values, tape.gradient(total, [features, kernel.value, bias.value])

    values, gradients = run(tf.constant(FEATURES))
    expected, expected_gradients = _oracle(kernel, bias, targets, q, upstream)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_normaliser(tf.constant(FEATURES), kernel, bias), expected[0], rtol=1e-5)


@pytest.mark.parametrize("size", [32, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("shift", [0, 21, 300, -300], ids=["moderate", "large", "overflow", "underflow"])
def test_losses_of_samples_and_their_gradients(shift, alpha, size):
    """Of NCE with self-normalisation, weighted by row. Moderate: products of factors are in range."""
    s = np.random.default_rng(0).normal(0, 1.5, (B, size)).astype(np.float32)
    s[1] = np.log(900 / size)  # of rows with this Z, the one with the greatest product
    s[::2] += shift
    upstream = np.linspace(1, 2, B, dtype=np.float32)
    wide = s.astype(np.float64)
    log_z = np.logaddexp.reduce(wide, axis=1)
    softmax, sigma = np.exp(wide - log_z[:, None]), np.exp(-np.logaddexp(0, -wide))
    loss, slope = np.logaddexp(0, wide).sum(axis=1) + alpha * log_z**2, sigma + 2 * alpha * log_z[:, None] * softmax
    logits = tf.constant(s)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = noise_loss(logits, alpha)
    gradient = tape.gradient(values, logits, output_gradients=tf.constant(upstream))
    np.testing.assert_allclose(values, loss, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, upstream[:, None] * slope, rtol=1e-4, atol=1e-6)
