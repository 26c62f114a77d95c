"""The full softmax: its loss with held-out mass and self-normalisation, low rank, tying and short-lists."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import FullSoftmax

V, W, B = 30, 6, 9


def _values(output) -> tuple[np.ndarray, np.ndarray]:
    return output.kernel.numpy().astype(np.float64), output.b.numpy().astype(np.float64)


def _gradients(output, features, targets) -> tuple:
    """The losses, -ln P, and the gradients of the sum of the losses by kernel and b."""
    with tf.GradientTape() as tape:
        loss, negative_log_likelihood = output.training_loss(features, targets)
        total = tf.reduce_sum(loss)
    return loss, negative_log_likelihood, tape.gradient(total, [output.kernel.value, output.b.value])


@pytest.mark.parametrize("mass, alpha", [(0.0, 0.0), (0.2, 0.0), (0.0, 0.1), (0.2, 0.1)])
def test_loss_and_gradient_with_both_terms(mass, alpha, batch):
    """(1-ε) (-ln P(t)) + ε sum_w q(w) (-ln P(w)) + α (ln Z)²."""
    features, targets = batch
    output, rng = FullSoftmax(V, held_out_mass=mass, self_normalisation=alpha), np.random.default_rng(0)
    output.build((None, W))
    for weight in output.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    counts = rng.integers(0, 9, V)
    output.set_unigram(counts, min_count=5)
    output.b.assign(rng.normal(0, 0.7, V))
    q = output.q.numpy().astype(np.float64) if mass else np.zeros(V)

    kernel, b = _values(output)
    y = features @ kernel.T + b
    log_z = np.log(np.exp(y).sum(axis=1))
    log_p = y - log_z[:, None]
    exact = -log_p[np.arange(B), targets]
    expected = (1 - mass) * exact - mass * log_p @ q + alpha * log_z**2
    p = np.exp(log_p)
    dy = p - (1 - mass) * np.eye(V)[targets] - mass * q + 2 * alpha * log_z[:, None] * p

    loss, negative_log_likelihood, (d_kernel, d_b) = _gradients(output, features, targets)
    np.testing.assert_allclose(loss, expected, rtol=1e-4)
    np.testing.assert_allclose(negative_log_likelihood, exact, rtol=1e-4)
    np.testing.assert_allclose(d_kernel, dy.T @ features, atol=1e-4)
    np.testing.assert_allclose(d_b, dy.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("kind", ["full, low rank", "full, tied"])
def test_low_rank_logits_are_projected(kind, randomised, batch):
    output, (features, _) = randomised(kind), batch
    rank = 5 if output.tied else 3
    assert output.P.shape == (W, rank) and output.kernel.shape == (V, rank)
    assert ("UW" in [weight.name for weight in output.weights]) == (not output.tied)
    kernel, b = _values(output)
    expected = features @ output.P.numpy() @ kernel.T + b
    np.testing.assert_allclose(output.logits(features), expected, atol=1e-4)
    np.testing.assert_allclose(output.input_columns(slice(2, None)), kernel @ output.P.numpy()[2:].T, atol=1e-5)


def test_weight_decay_is_on_matrices_only():
    output = FullSoftmax(V, weight_decay=0.3, rank=2)
    output.build((None, W))
    squares = sum(np.square(weight.numpy()).sum() for weight in (output.P, output.kernel))
    np.testing.assert_allclose(sum(map(float, output.losses)), 0.15 * squares, rtol=1e-5)
    assert output.biases == [output.b]


def test_shortlist_has_one_output_for_all_other_words(batch):
    features, _ = batch
    output = FullSoftmax(V, shortlist_size=20, outside_output=True)
    assert output(features).shape == (B, 25) and (output.listed, output.num_outputs) == (24, 25)
    assert np.asarray(output.output_ids(np.array([4, 23, 24, 29, 30]))).tolist() == [4, 23, 24, 24, 30]
    alone = FullSoftmax(V, shortlist_size=20)
    assert alone(features).shape == (B, 24)
    assert np.asarray(alone.output_ids(np.array([4, 29]))).tolist() == [4, 29]


def test_mixed_precision_probabilities_sum_to_one(batch):
    features, _ = batch
    output = FullSoftmax(V, dtype="mixed_bfloat16")
    probabilities = output(keras.ops.cast(features, "bfloat16"))
    assert probabilities.dtype == "float32"
    np.testing.assert_allclose(np.asarray(probabilities).sum(axis=1), 1, rtol=1e-5)
