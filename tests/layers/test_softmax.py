"""The tiled softmax, ln Z and the losses of negative samples, with their gradients, against NumPy
in float64.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers.softmax as softmax
from keras_nplm.layers.softmax import linear_softmax, log_normaliser, noise_loss

W = 6  # features
B = 9  # contexts
ONE_TILE = 1 << 22
ROWS = np.arange(B)
FEATURES = np.random.default_rng(1).normal(size=(B, W)).astype(np.float32)


def make_weights(size: int, shift: float = 0.0) -> tuple[keras.Variable, keras.Variable]:
    """Return a kernel and a bias, whose logits are about `shift`."""
    rng = np.random.default_rng(2)
    kernel = rng.normal(0, 0.3, (size, W)).astype(np.float32)
    bias = (rng.normal(0, 0.3, size) + shift).astype(np.float32)
    return keras.Variable(kernel, autocast=False), keras.Variable(bias, autocast=False)


def split(kernel: keras.Variable, widths: list[int]) -> list[np.ndarray]:
    """Return a kernel in blocks of columns."""
    return np.split(kernel.numpy(), np.cumsum(widths)[:-1], axis=1)


def compute_in_numpy(
    kernel: np.ndarray, bias: np.ndarray, targets: np.ndarray, upstream: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return ln Z and y_t, and the gradients of their sum weighted by `upstream`, in float64."""
    f, u, b = (np.asarray(array, np.float64) for array in (FEATURES, kernel, bias))
    y = f @ u.T + b
    log_z = np.logaddexp.reduce(y, axis=1)
    values = [log_z, y[ROWS, targets]]
    dy = upstream[0][:, None] * np.exp(y - log_z[:, None])
    dy[ROWS, targets] += upstream[1]
    return values, [dy @ u, dy.T @ f, dy.sum(axis=0)]


SIZES = {"few words": (30, 0), "overflow": (1300, 200), "underflow": (1300, -200)}  # and shifts


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("blocks", [[W], [4, 2], [0, W]])
@pytest.mark.parametrize("whole", [0, ONE_TILE])
@pytest.mark.parametrize("name", SIZES)
def test_tiled_softmax_and_its_gradient(name, whole, blocks, jit, monkeypatch):
    """In tiles and in one; with one kernel, two blocks, or an empty one; and compiled by XLA."""
    size, shift = SIZES[name]
    monkeypatch.setattr(softmax, "WHOLE", whole)
    monkeypatch.setattr(softmax, "CACHED", 1)  # the smallest tiles
    kernel, bias = make_weights(size, shift)
    kernels = [keras.Variable(block, autocast=False) for block in split(kernel, blocks)]
    targets = np.random.default_rng(3).integers(0, size, B).astype(np.int32)
    upstream = np.random.default_rng(5).normal(size=(2, B))

    @tf.function(jit_compile=jit, autograph=False)
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = linear_softmax(features, kernels, bias, targets, "float32")
            total = tf.reduce_sum(tf.stack(values) * tf.constant(upstream, tf.float32))
        weights = [kernel.value for kernel in kernels]
        return values, tape.gradient(total, [features, *weights, bias.value])

    values, (d_features, *d_kernels, d_bias) = run(tf.constant(FEATURES))
    expected, expected_gradients = compute_in_numpy(kernel, bias, targets, upstream)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    gradients = [d_features, np.concatenate(d_kernels, axis=1), d_bias]
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    log_z = log_normaliser(tf.constant(FEATURES), kernel, bias)
    np.testing.assert_allclose(log_z, expected[0], rtol=1e-5)


@pytest.mark.parametrize("blocks", [pytest.param([W], id="one kernel"), [4, 2]])
def test_half_precision_is_that_of_the_products_alone(blocks):
    """Sums have float32: with bfloat16 a sum of a thousand exponentials would stay at 256."""
    kernel, bias = make_weights(1300)
    targets = np.random.default_rng(3).integers(0, 1300, B).astype(np.int32)
    kernels = split(kernel, blocks)
    log_z, logit = linear_softmax(tf.constant(FEATURES), kernels, bias, targets, "bfloat16")
    assert log_z.dtype == logit.dtype == tf.float32
    expected, _ = compute_in_numpy(kernel, bias, targets, np.ones((2, B)))
    np.testing.assert_allclose(log_z, expected[0], rtol=5e-3)
    np.testing.assert_allclose(logit, expected[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [32, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize(
    "shift", [0, 21, 300, -300], ids=["moderate", "large", "overflow", "underflow"]
)
def test_losses_of_samples_and_their_gradients(shift, alpha, size):
    """Of NCE with self-normalisation, weighted by row.

    Moderate: products of factors are in range.
    """
    s = np.random.default_rng(0).normal(0, 1.5, (B, size)).astype(np.float32)
    s[1] = np.log(900 / size)  # of rows with this Z, the one with the greatest product
    s[::2] += shift
    upstream = np.linspace(1, 2, B, dtype=np.float32)
    wide = s.astype(np.float64)
    log_z = np.logaddexp.reduce(wide, axis=1)
    shares = np.exp(wide - log_z[:, None])
    sigma = np.exp(-np.logaddexp(0, -wide))
    loss = np.logaddexp(0, wide).sum(axis=1) + alpha * log_z**2
    slope = sigma + 2 * alpha * log_z[:, None] * shares
    logits = tf.constant(s)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = noise_loss(logits, alpha)
    gradient = tape.gradient(values, logits, output_gradients=tf.constant(upstream))
    np.testing.assert_allclose(values, loss, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, upstream[:, None] * slope, rtol=1e-4, atol=1e-6)
