"""Weights fitted by expectation-maximisation; frequency bins: see test_deleted_interpolation.py."""

import tracemalloc

import numpy as np
import pytest

from keras_nplm.models.ngrams import interpolation
from keras_nplm.models.ngrams.interpolation import combine, fit_weights, sum_log_probs


@pytest.mark.parametrize("block", [7, 1 << 16])
def test_fitted_weights_are_the_most_likely_ones(monkeypatch, block):
    monkeypatch.setattr(interpolation, "_BLOCK_EVENTS", block)
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], 500))
    bins = rng.integers(0, 2, 500)
    weights = fit_weights(log_probs.T, bins, 3)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[2], 1 / 3)  # a bin without events
    # without bins
    [of_all] = fit_weights(list(log_probs.T))
    np.testing.assert_allclose(of_all, fit_weights(log_probs.T, 0 * bins)[0], atol=1e-9)
    likelihood = combine(log_probs, of_all).sum()
    np.testing.assert_allclose(sum_log_probs(log_probs.T, of_all), likelihood)

    # one event shared by the components is the prior w_1^(1/3) w_2^(1/3) w_3^(1/3)
    def penalised(b, w):
        return combine(log_probs[bins == b], w).sum() + np.log(w).mean()

    for b in range(2):
        for other in rng.dirichlet([1, 1, 1], 300):
            assert penalised(b, other) <= penalised(b, weights[b]) + 1e-4


def test_memory_of_fitting_does_not_grow_with_the_text(monkeypatch):
    monkeypatch.setattr(interpolation, "_MAX_ITERATIONS", 1)
    columns = np.log(np.random.default_rng(3).random((2, 1 << 19), np.float32) + 0.1)
    peaks = []
    for events in (1 << 17, 1 << 19):
        tracemalloc.start()
        fit_weights(columns[:, :events])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_a_part_without_weight_does_not_drown_the_others():
    log_probs = np.array([[-1.0, -800.0], [-np.inf, -2.0], [-np.inf, -np.inf]])
    assert combine(log_probs, np.array([[0.0, 1.0]])).tolist() == [-800, -2, -np.inf]
