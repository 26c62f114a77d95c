"""Weights fitted by expectation-maximisation; frequency bins: see test_deleted_interpolation.py."""

import numpy as np

from keras_nplm.models.ngrams.interpolation import combine, fit_weights


def test_fitted_weights_are_the_most_likely_ones():
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], 500))
    bins = rng.integers(0, 2, 500)
    weights = fit_weights(log_probs, bins, 3)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[2], 1 / 3)  # a bin without events

    # one event shared by the components is the prior w_1^(1/3) w_2^(1/3) w_3^(1/3)
    def penalised(b, w):
        return combine(log_probs[bins == b], w).sum() + np.log(w).mean()

    for b in range(2):
        for other in rng.dirichlet([1, 1, 1], 300):
            assert penalised(b, other) <= penalised(b, weights[b]) + 1e-4


def test_a_part_without_weight_does_not_drown_the_others():
    log_probs = np.array([[-1.0, -800.0], [-np.inf, -2.0]])
    assert combine(log_probs, np.array([[0.0, 1.0]])).tolist() == [-800, -2]
