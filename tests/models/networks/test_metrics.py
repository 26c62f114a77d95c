"""Perplexity as a Keras metric."""

import numpy as np
import pytest

from keras_nplm import Perplexity


def test_perplexity_is_over_tokens_and_not_over_batches():
    perplexity = Perplexity()
    assert float(perplexity.result()) == 1.0
    assert perplexity.total.dtype == "float64"  # float32 drifts over millions of tokens
    perplexity.update_state(np.log(np.array([2.0, 2.0, 2.0], np.float32)))
    perplexity.update_state(np.log(np.array([32.0], np.float32)))
    assert float(perplexity.result()) == pytest.approx((2 * 2 * 2 * 32) ** (1 / 4))  # 4, where batches would say 8


def test_more_dimensions_and_targets_out_of_range():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3)).astype(np.float32)
    targets, weights = np.array([[0, 4, 2], [1, 3, -1]]), np.array([[1, 2, 1], [1, 1, 0]], np.float32)
    for shape in (targets.shape, (*targets.shape, 1)):
        perplexity = Perplexity()
        perplexity.update_state(targets[:, :2].reshape(2, 2, *shape[2:]), probabilities[:, :2], weights[:, :2])
        chosen = np.take_along_axis(probabilities, targets[..., None], axis=-1)[:, :2, 0]
        expected = np.exp(-(np.log(chosen) * weights[:, :2]).sum() / weights[:, :2].sum())
        np.testing.assert_allclose(perplexity.result(), expected, rtol=1e-6)
    for wrong in (-1, 5):
        perplexity = Perplexity()
        perplexity.update_state(np.array([0, wrong]), probabilities[0, :2])
        assert np.isnan(perplexity.result())
