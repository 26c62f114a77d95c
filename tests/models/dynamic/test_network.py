"""Dynamic evaluation of networks against a plain loop, and what must hold for every output
layer.
"""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    ContextEmbedding,
    ContextNetwork,
    DirectConnection,
    EnergyHead,
    Likelihood,
    LinearHead,
    SampledSoftmax,
    TanhHidden,
)
from keras_nplm.models.dynamic import DynamicSettings
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    copy_network,
    group_weights,
    measure_mean_squares,
)

V = 9
ORDER = 3
M = 2
H = 4
RNG = np.random.default_rng(5)
NGRAMS = RNG.integers(1, V, (61, ORDER)).astype(np.int32)
NGRAMS[::7, 0] = 0  # <pad>


def _randomise(model):
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


def _build_network(**options) -> ContextNetwork:
    keras.utils.set_random_seed(2)
    layers = dict(
        order=ORDER,
        embed=ContextEmbedding(V, M, name="embed"),
        hidden=TanhHidden(H, name="hidden"),
        head=LinearHead(V, name="prob"),
        objective=Likelihood(),
    )
    layers.update(options)
    return _randomise(ContextNetwork(**layers))


def _build_paper() -> NPLM:
    return _randomise(NPLM(V, ORDER, M, H, direct_connections=True))


def _build_tied() -> ContextNetwork:
    return _build_network(head=LinearHead(V, tied=True, name="prob"))


def _build_low_rank() -> ContextNetwork:
    return _build_network(head=LinearHead(V, rank=2, name="prob"), direct=DirectConnection(V))


def _build_shortlist() -> ContextNetwork:
    head = LinearHead(V, num_outputs=6, name="prob")
    return _build_network(head=head, direct=DirectConnection(6))


def _build_adaptive() -> ContextNetwork:
    return _build_network(head=AdaptiveHead(V, name="prob"))


def _build_energy() -> ContextNetwork:
    head = EnergyHead(V, hidden_units=H, name="prob")
    return _build_network(hidden=None, head=head, objective=SampledSoftmax())


def _read(model, ngrams: np.ndarray, cuts=()) -> np.ndarray:
    return np.concatenate(
        [model.log_prob(part[:, :-1], part[:, -1]) for part in np.split(ngrams, cuts)]
    )


def _gradient(model: NPLM, ngrams: np.ndarray) -> tuple[np.ndarray, list]:
    """Return ln P of n-grams, and the gradient of -1/B sum ln P by the weights, from the
    probabilities of all words.
    """
    with tf.GradientTape() as tape:
        log_prob = tf.math.log(tf.gather(model(ngrams[:, :-1]), ngrams[:, -1], batch_dims=1))
        loss = -tf.reduce_mean(log_prob)
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return log_prob.numpy(), [tf.convert_to_tensor(gradient).numpy() for gradient in gradients]


def _read_plainly(model: NPLM, ngrams: np.ndarray, chunk: int, rate: float, scales) -> np.ndarray:
    """Return ln P of n-grams from a copy of a model that takes a step after each chunk."""
    copy = copy_network(model)
    result = []
    for first in range(0, len(ngrams), chunk):
        log_prob, gradients = _gradient(copy, ngrams[first : first + chunk])
        result.append(log_prob)
        for weight, gradient, scale in zip(copy.trainable_weights, gradients, scales, strict=True):
            weight.assign_sub(rate * scale * gradient)
    return np.concatenate(result)


@pytest.mark.parametrize(
    "factors",
    [
        pytest.param({}, marks=pytest.mark.long, id="one rate"),
        pytest.param(
            {"embedding": 0.5, "hidden": 2.0, "output": 0.0, "biases": 4.0},
            id="a factor for each group",
        ),
    ],
)
def test_sgd_is_the_plain_loop(factors):
    model = _build_paper()
    scales = [factors.get(group, 1.0) for group in group_weights(model)]
    assert len(set(scales)) == max(1, len(factors))
    expected = _read_plainly(model, NGRAMS, 4, 0.7, scales)
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=4, rate=0.7, **factors))
    assert np.allclose(_read(dynamic, NGRAMS), expected, atol=5e-5)
    static = _read(model, NGRAMS)
    assert np.allclose(static[:4], expected[:4], atol=1e-5)
    assert np.abs(static - expected)[4:].max() > 0.1


@pytest.mark.long
def test_the_trained_network_keeps_a_share_of_the_probability():
    model = _build_network()
    settings = DynamicSettings(chunk=4, rate=0.7)
    learned = _read(DynamicNPLM(model, settings), NGRAMS)
    trained = _read(model, NGRAMS)
    shared = DynamicNPLM(model, dataclasses.replace(settings, static_share=0.3))
    expected = np.log(0.7 * np.exp(learned) + 0.3 * np.exp(trained))
    assert np.allclose(_read(shared, NGRAMS), expected, atol=1e-5)
    shared.reset()
    assert np.allclose(_read(shared, NGRAMS, cuts=(3, 4, 30)), expected, atol=1e-5)
    still = DynamicNPLM(model, DynamicSettings(rate=0, static_share=0.3))
    assert np.array_equal(
        _read(still, NGRAMS), _read(DynamicNPLM(model, DynamicSettings(rate=0)), NGRAMS)
    )


def test_a_tied_matrix_is_of_the_embedding():
    groups = group_weights(_build_tied())
    assert sorted(groups) == ["biases", "embedding", "hidden", "hidden", "output"]


def test_steps_in_units_of_the_training_gradient():
    model = _build_paper()
    gradients = [_gradient(model, NGRAMS[first : first + 4])[1] for first in range(0, 40, 4)]
    squares = [np.mean(np.square(parts), axis=0) for parts in zip(*gradients, strict=True)]
    measured = measure_mean_squares(model, NGRAMS[:42], chunk=4)
    for found, wanted in zip(measured, squares, strict=True):
        assert np.allclose(found, wanted, rtol=1e-3, atol=1e-7)
    mean = np.mean(np.concatenate([np.sqrt(square[square > 0]) for square in squares]))
    least = [(0.1 if group == "biases" else 1.0) * mean for group in group_weights(model)]
    scales = [
        mean / np.maximum(np.sqrt(square), low) for square, low in zip(squares, least, strict=True)
    ]
    expected = _read_plainly(model, NGRAMS, 4, 0.05, scales)
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=4, rate=0.05, rule="rms"), measured)
    assert np.allclose(_read(dynamic, NGRAMS), expected, atol=1e-3)


# a pointer learns in test_contract.py, one with negative samples in networks/test_segments.py
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(_build_shortlist, id="short-list"),
        pytest.param(_build_tied, marks=pytest.mark.long, id="tied"),
        pytest.param(_build_low_rank, marks=pytest.mark.long, id="low rank"),
        pytest.param(_build_adaptive, marks=pytest.mark.long, id="adaptive"),
        pytest.param(_build_energy, marks=pytest.mark.long, id="energy"),
    ],
)
def test_every_network_learns_after_it_predicts(build):
    model = build()
    before = model.get_weights()
    dynamic = DynamicNPLM(model, DynamicSettings(chunk=5, rate=0.5))
    whole = _read(dynamic, NGRAMS)
    static = _read(model, NGRAMS)
    known = np.isfinite(static)
    if build is not _build_shortlist:
        assert known.all()
    first = np.flatnonzero(known)[:5]
    assert np.allclose(whole[first], static[first], atol=1e-5)
    assert np.abs(whole[known] - static[known]).max() > 1e-2
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)
    dynamic.reset()
    assert np.array_equal(_read(dynamic, NGRAMS), whole)
