"""Dynamic evaluation of networks against a plain loop over the formula, for every output layer."""

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    copy_network,
    measure_mean_squares,
)
from tests.every_network import build_network, make_contexts, make_targets

CHUNK = 4
BIASES = 4.0  # the factor of their rate
CONTEXTS = make_contexts(61)
# with targets beyond a short-list
TRAINING = np.column_stack([CONTEXTS, make_targets(build_network("paper"), CONTEXTS)])[:42]


def _read(model, ngrams, cuts=()) -> np.ndarray:
    return np.concatenate(
        [model.log_prob(part[:, :-1], part[:, -1]) for part in np.split(ngrams, cuts)]
    )


def _gradient(model, ngrams: np.ndarray) -> tuple[np.ndarray, list]:
    """Return ln P of n-grams, and the gradient of -1/B sum ln P by the weights, from the
    probabilities of all words.
    """
    with tf.GradientTape() as tape:
        log_prob = tf.math.log(tf.gather(model(ngrams[:, :-1]), ngrams[:, -1], batch_dims=1))
        loss = -tf.reduce_mean(log_prob)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return log_prob.numpy(), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def _measure_scales(model) -> list[np.ndarray]:
    """Return s of each component of the weights; check the mean squares of the package."""
    listed = TRAINING[TRAINING[:, -1] < model.prob.num_outputs]
    number = len(listed) // CHUNK
    gradients = [_gradient(model, part)[1] for part in np.split(listed[: number * CHUNK], number)]
    squares = [np.mean(np.square(parts), axis=0) for parts in zip(*gradients, strict=True)]
    for found, wanted in zip(measure_mean_squares(model, TRAINING, CHUNK), squares, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-7)
    roots = [np.sqrt(square) for square in squares]
    mean = np.mean(np.concatenate([root[root > 0] for root in roots]))
    least = [0.1 if is_bias else 1.0 for is_bias in _list_biases(model)]
    return [mean / np.maximum(root, part * mean) for root, part in zip(roots, least, strict=True)]


def _list_biases(model) -> list[bool]:
    """Return which trainable weights are biases of the output."""
    biases = [weight.path for weight in model.prob.biases]
    return [weight.path in biases for weight in model.trainable_weights]


@pytest.mark.parametrize(
    "name, is_measured",
    [
        ("paper", False),
        ("short-list / likelihood", True),
        pytest.param("tied / likelihood", True, marks=pytest.mark.long),
        pytest.param("low rank / likelihood", True, marks=pytest.mark.long),
        pytest.param("adaptive / likelihood", False, marks=pytest.mark.long),
        pytest.param("energy / sampled", True, marks=pytest.mark.long),
    ],
)
def test_steps_and_the_static_share_are_those_of_the_formula(name, is_measured):
    model = build_network(name)
    before = model.get_weights()
    ngrams = np.column_stack([CONTEXTS, make_targets(model, CONTEXTS)])
    scales = _measure_scales(model) if is_measured else [1.0] * len(model.trainable_weights)
    copy = copy_network(model)
    learned = []
    for first in range(0, len(ngrams), CHUNK):
        log_prob, gradients = _gradient(copy, ngrams[first : first + CHUNK])
        learned.append(log_prob)
        steps = zip(copy.trainable_weights, gradients, _list_biases(copy), scales, strict=True)
        for weight, gradient, is_bias, scale in steps:
            weight.assign_sub(0.05 * (BIASES if is_bias else 1) * scale * gradient)
    static = _read(model, ngrams)
    assert np.abs(np.concatenate(learned) - static).max() > 0.05
    expected = np.log(0.7 * np.exp(np.concatenate(learned)) + 0.3 * np.exp(static))
    settings = DynamicSettings(CHUNK, 0.05, BIASES, static_share=0.3)
    squares = measure_mean_squares(model, TRAINING, CHUNK) if is_measured else None
    dynamic = DynamicNPLM(model, settings, squares)
    for cuts in ((), (3, 4, 30)):
        np.testing.assert_allclose(_read(dynamic, ngrams, cuts), expected, atol=1e-3)
        dynamic.reset()
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)
