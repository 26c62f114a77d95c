"""The tiled softmax, ln Z and sparse rows of a matrix, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers.softmax as operations
from keras_nplm.layers.lookup import rows, sum_repeated_rows
from keras_nplm.layers.ops import l2_regularizer
from keras_nplm.layers.softmax import (
    linear_log_prob,
    linear_softmax,
    log_normaliser,
    log_sum_exp,
    noise_loss,
)

W, B = 6, 9


def _features(seed=1):
    return np.random.default_rng(seed).normal(size=(B, W)).astype(np.float32)


def _targets(size):
    return np.random.default_rng(3).integers(0, size, B).astype(np.int32)


def _variables(size, scale=0.3):
    rng = np.random.default_rng(2)
    kernel = rng.normal(0, scale, (size, W)).astype(np.float32)
    bias = rng.normal(0, scale, size).astype(np.float32)
    return keras.Variable(kernel, autocast=False), keras.Variable(bias, autocast=False)


def _oracle(features, kernel, bias, targets, q, upstream):
    """ln Z, y_t, y_q and the gradients of their sum weighted by `upstream`, in float64."""
    f, u, b = (np.asarray(a, np.float64) for a in (features, kernel, bias))
    y = f @ u.T + b
    greatest = y.max(axis=1, keepdims=True)
    log_z = greatest[:, 0] + np.log(np.exp(y - greatest).sum(axis=1))
    values = log_z, y[np.arange(len(y)), targets], y @ q
    dy = upstream[0][:, None] * np.exp(y - log_z[:, None])
    dy[np.arange(len(y)), targets] += upstream[1]
    dy += upstream[2][:, None] * q
    return values, (dy @ u, dy.T @ f, dy.sum(axis=0))


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("whole", [0, 1 << 22])
@pytest.mark.parametrize("size, shift", [(30, 0), (2500, 0), (2500, 200), (2500, -200)])
def test_tiled_softmax_and_its_gradient(size, shift, whole, jit, monkeypatch):
    """One tile and several. Logits whose exponentials overflow or underflow."""
    monkeypatch.setattr(operations, "_WHOLE", whole)
    monkeypatch.setattr(operations, "_CACHED", 1)  # the smallest tiles
    kernel, bias = _variables(size)
    bias.assign(bias.numpy() + shift)
    features, targets = _features(), _targets(size)
    q = np.random.default_rng(4).dirichlet(np.ones(size))
    upstream = np.random.default_rng(5).normal(size=(3, B))

    @tf.function(jit_compile=jit)
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            values = linear_softmax(features, kernel, bias, targets, "float32", tf.constant(q, tf.float32))
            total = tf.reduce_sum(tf.stack(values) * tf.constant(upstream, tf.float32))
        return values, tape.gradient(total, [features, kernel.value, bias.value])

    values, gradients = run(tf.constant(features))
    expected, expected_gradients = _oracle(features, kernel, bias, targets, q, upstream)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(log_normaliser(tf.constant(features), kernel, bias), expected[0], rtol=1e-5)


def test_tiled_softmax_passes_nan_on():
    kernel, bias = _variables(30)
    features = np.full((2, W), np.nan, np.float32)
    assert np.isnan(log_normaliser(tf.constant(features), kernel, bias)).all()
    assert np.isnan(linear_softmax(tf.constant(features), kernel, bias, np.array([4, 5]), "float32")[0]).all()


def test_tiled_softmax_in_half_precision_is_near():
    kernel, bias = _variables(2500)
    features, targets = _features(), _targets(2500)
    half = linear_softmax(tf.constant(features), kernel, bias, targets, "bfloat16")
    whole = linear_softmax(tf.constant(features), kernel, bias, targets, "float32")
    np.testing.assert_allclose(half[0], whole[0], atol=0.02)
    np.testing.assert_allclose(half[1], whole[1], atol=0.02)


def test_log_prob_of_targets_that_share_contexts():
    kernel, bias = _variables(40)
    features, targets = _features(), _targets(40)
    y = features.astype(np.float64) @ kernel.numpy().T + bias.numpy()
    log_probs = y - np.log(np.exp(y).sum(axis=1, keepdims=True))
    found = linear_log_prob(tf.constant(features), kernel, bias, targets)
    np.testing.assert_allclose(found, log_probs[np.arange(B), targets], rtol=1e-5)
    which = np.array([2, 0, 2, 1, 8])
    found = linear_log_prob(tf.constant(features), kernel, bias, targets[:5], which)
    np.testing.assert_allclose(found, log_probs[which, targets[:5]], rtol=1e-5)


@pytest.mark.parametrize("shift", [0, 300, -300])
def test_log_sum_exp_of_large_and_small_logits(shift):
    logits = np.random.default_rng(0).normal(size=(4, 7)) + shift
    expected = shift + np.log(np.exp(logits - shift).sum(axis=1))
    np.testing.assert_allclose(log_sum_exp(tf.constant(logits, tf.float32)), expected, rtol=1e-6, atol=1e-6)


def test_rows_have_a_sparse_gradient_and_ids_are_clipped():
    variable = keras.Variable(np.arange(8.0).reshape(4, 2), autocast=False)
    with tf.GradientTape() as tape:
        found = rows(variable, np.array([1, 3, 1, 99]))
        total = tf.reduce_sum(found)
    assert found.numpy()[:, 0].tolist() == [2, 6, 2, 6]
    gradient = tape.gradient(total, variable.value)
    assert isinstance(gradient, tf.IndexedSlices)
    assert tf.convert_to_tensor(gradient).numpy()[:, 0].tolist() == [0, 2, 0, 2]


@pytest.mark.parametrize("jit", [False, True])
def test_repeated_rows_are_summed(jit):
    ids, values = np.array([7, 3, 7, 0, 7], np.int32), np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    distinct, sums = tf.function(sum_repeated_rows, jit_compile=jit)(tf.constant(ids), tf.constant(values))
    assert sorted(distinct.numpy()) == [0, 3, 7]
    for row, found in zip(distinct.numpy(), sums.numpy(), strict=True):
        np.testing.assert_allclose(found, values[ids == row].sum(axis=0), rtol=1e-6)


@pytest.mark.parametrize("size", [32, 7])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("shift", [0, 21, 300, -300], ids=["moderate", "large", "overflow", "underflow"])
def test_losses_of_samples_and_their_gradients(shift, alpha, size):
    """Of NCE with self-normalisation, and log Z alone, weighted by row. Moderate: products of factors are in range."""
    s = np.random.default_rng(0).normal(0, 1.5, (B, size)).astype(np.float32)
    s[1] = np.log(900 / size)  # of rows with this Z, the one with the greatest product
    s[::2] += shift
    upstream = np.linspace(1, 2, B, dtype=np.float32)
    wide = s.astype(np.float64)
    log_z = np.logaddexp.reduce(wide, axis=1)
    softmax, sigma = np.exp(wide - log_z[:, None]), np.exp(-np.logaddexp(0, -wide))
    expected = {
        "noise": (
            np.logaddexp(0, wide).sum(axis=1) + alpha * log_z**2,
            sigma + 2 * alpha * log_z[:, None] * softmax,
        ),
        "log Z": (log_z, softmax),
    }
    logits = tf.constant(s)
    for name, function in {"noise": lambda s: noise_loss(s, alpha), "log Z": log_sum_exp}.items():
        with tf.GradientTape() as tape:
            tape.watch(logits)
            values = function(logits)
        gradient = tape.gradient(values, logits, output_gradients=tf.constant(upstream))
        np.testing.assert_allclose(values, expected[name][0], rtol=1e-5, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(gradient, upstream[:, None] * expected[name][1], rtol=1e-4, atol=1e-6, err_msg=name)


def test_penalty_has_the_gradient_of_weight_decay():
    assert l2_regularizer(0.0) is None
    weight = tf.Variable([1.0, -2.0])
    with tf.GradientTape() as tape:
        value = l2_regularizer(0.3)(weight)
    assert float(value) == pytest.approx(0.15 * 5)
    np.testing.assert_allclose(tape.gradient(value, weight), [0.3, -0.6], rtol=1e-6)
