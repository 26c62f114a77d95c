"""Dynamic evaluation of networks against a plain loop, and what must hold for every output
layer.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    copy_network,
    group_weights,
    measure_mean_squares,
)
from tests.every_network import build_network, make_contexts, make_targets

CONTEXTS = make_contexts(61)
PAPER = build_network("paper")
NGRAMS = np.column_stack([CONTEXTS, make_targets(PAPER, CONTEXTS)])


def _read(model, ngrams=NGRAMS, cuts=()) -> np.ndarray:
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


def _read_plainly(chunk: int, rate: float, scales) -> np.ndarray:
    """Return ln P of n-grams from a copy of a model that takes a step after each chunk."""
    copy = copy_network(PAPER)
    result = []
    for first in range(0, len(NGRAMS), chunk):
        log_prob, gradients = _gradient(copy, NGRAMS[first : first + chunk])
        result.append(log_prob)
        for weight, gradient, scale in zip(copy.trainable_weights, gradients, scales, strict=True):
            weight.assign_sub(rate * scale * gradient)
    return np.concatenate(result)


def test_sgd_is_the_plain_loop():
    factors = {"embedding": 0.5, "hidden": 2.0, "output": 0.0, "biases": 4.0}
    scales = [factors[group] for group in group_weights(PAPER)]
    assert len(set(scales)) == len(factors)
    expected = _read_plainly(4, 0.2, scales)
    dynamic = DynamicNPLM(PAPER, DynamicSettings(chunk=4, rate=0.2, **factors))
    assert np.allclose(_read(dynamic), expected, atol=5e-5)
    static = _read(PAPER)
    assert np.allclose(static[:4], expected[:4], atol=1e-5)
    assert np.abs(static - expected)[4:].max() > 0.1


@pytest.mark.long
def test_the_trained_network_keeps_a_share_of_the_probability():
    settings = DynamicSettings(chunk=4, rate=0.2)
    learned = _read(DynamicNPLM(PAPER, settings))
    trained = _read(PAPER)
    shared = DynamicNPLM(PAPER, dataclasses.replace(settings, static_share=0.3))
    expected = np.log(0.7 * np.exp(learned) + 0.3 * np.exp(trained))
    assert np.allclose(_read(shared), expected, atol=1e-5)
    shared.reset()
    assert np.allclose(_read(shared, cuts=(3, 4, 30)), expected, atol=1e-5)
    still = DynamicNPLM(PAPER, DynamicSettings(rate=0, static_share=0.3))
    assert np.array_equal(_read(still), _read(DynamicNPLM(PAPER, DynamicSettings(rate=0))))


def test_a_tied_matrix_is_of_the_embedding():
    groups = group_weights(build_network("tied / likelihood"))
    assert sorted(groups) == ["biases", "embedding", "hidden", "hidden", "output"]


def test_steps_in_units_of_the_training_gradient():
    gradients = [_gradient(PAPER, NGRAMS[first : first + 4])[1] for first in range(0, 40, 4)]
    squares = [np.mean(np.square(parts), axis=0) for parts in zip(*gradients, strict=True)]
    measured = measure_mean_squares(PAPER, NGRAMS[:42], chunk=4)
    for found, wanted in zip(measured, squares, strict=True):
        assert np.allclose(found, wanted, rtol=1e-3, atol=1e-7)
    mean = np.mean(np.concatenate([np.sqrt(square[square > 0]) for square in squares]))
    least = [(0.1 if group == "biases" else 1.0) * mean for group in group_weights(PAPER)]
    scales = [
        mean / np.maximum(np.sqrt(square), low) for square, low in zip(squares, least, strict=True)
    ]
    expected = _read_plainly(4, 0.05, scales)
    dynamic = DynamicNPLM(PAPER, DynamicSettings(chunk=4, rate=0.05, rule="rms"), measured)
    assert np.allclose(_read(dynamic), expected, atol=1e-3)


def test_mean_squares_of_a_short_list_are_those_of_its_outputs():
    network = build_network("short-list / likelihood")
    is_listed = NGRAMS[:, -1] < network.prob.num_outputs
    assert not is_listed.all()
    expected = measure_mean_squares(network, NGRAMS[is_listed], 8)
    found = measure_mean_squares(network, NGRAMS, 8)
    for square, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(square, wanted, rtol=1e-5)


# a pointer learns in test_contract.py, one with negative samples in networks/test_segments.py
@pytest.mark.parametrize(
    "name, dtype",
    [
        ("short-list / likelihood", "float32"),
        pytest.param("tied / likelihood", "float32", marks=pytest.mark.long),
        pytest.param("low rank / likelihood", "float32", marks=pytest.mark.long),
        pytest.param("adaptive / likelihood", "float32", marks=pytest.mark.long),
        pytest.param("energy / sampled", "float32", marks=pytest.mark.long),
        pytest.param("pointer, direct", "mixed_bfloat16", marks=pytest.mark.long),
    ],
)
def test_every_network_learns_after_it_predicts(name, dtype):
    model = build_network(name, dtype)
    before = model.get_weights()
    ngrams = np.column_stack([CONTEXTS, make_targets(model, CONTEXTS)])
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=5, rate=0.2))
    whole = _read(dynamic, ngrams)
    static = _read(model, ngrams)
    assert np.allclose(whole[:5], static[:5], atol=1e-5)
    assert np.abs(whole - static).max() > 1e-2
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)
    dynamic.reset()
    assert np.array_equal(_read(dynamic, ngrams), whole)
