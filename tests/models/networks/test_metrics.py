"""Perplexity as a Keras metric."""

import keras
import numpy as np
import pytest

from keras_nplm import Perplexity


def test_perplexity_is_over_tokens_and_not_over_batches():
    perplexity = Perplexity()
    assert float(perplexity.result()) == 1.0
    # float32 drifts over millions of tokens
    assert perplexity.total.dtype == "float64"
    perplexity.update_state(np.log(np.array([2.0, 2.0, 2.0], np.float32)))
    perplexity.update_state(np.log(np.array([32.0], np.float32)))
    # 4, where batches would say 8
    assert float(perplexity.result()) == pytest.approx((2 * 2 * 2 * 32) ** (1 / 4))


def test_targets_may_have_more_dimensions_and_must_be_in_range():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), (2, 2)).astype(np.float32)
    targets = np.array([[0, 4], [1, 3]])
    weights = np.array([[1, 2], [1, 0]], np.float32)
    chosen = np.take_along_axis(probabilities, targets[..., None], axis=-1)[..., 0]
    expected = np.exp(-(np.log(chosen) * weights).sum() / weights.sum())
    for given in (targets, targets[..., None]):
        perplexity = Perplexity()
        perplexity.update_state(given, probabilities, weights)
        np.testing.assert_allclose(perplexity.result(), expected, rtol=1e-6)
    for wrong in (-1, 5):
        perplexity.reset_state()
        perplexity.update_state(np.where(targets == 4, wrong, targets), probabilities)
        assert np.isnan(perplexity.result())


@pytest.mark.parametrize("from_logits", [False, True])
def test_perplexity_is_a_metric_of_any_model(from_logits):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 4)).astype(np.float32)
    targets = rng.integers(0, 30, 64).astype(np.int32)
    inputs = keras.Input((4,))
    layer = keras.layers.Dense(30, activation=None if from_logits else "softmax")
    model = keras.Model(inputs, layer(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile("sgd", loss, metrics=[Perplexity(from_logits=from_logits)])
    history = model.fit(x, targets, batch_size=64, verbose=0).history
    np.testing.assert_allclose(np.log(history["perplexity"]), history["loss"], rtol=1e-5)
