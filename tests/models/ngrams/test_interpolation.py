"""Weights fitted by expectation-maximisation, and frequency bins."""

import math

import numpy as np

from keras_nplm.models.ngrams import ContextFrequencies, FrequencyBins, count_ngrams
from keras_nplm.models.ngrams.interpolation import combine, fit_weights

V = 9  # <pad> <unk> <s> </s> and five words


def test_fitted_weights_are_the_most_likely_ones():
    rng = np.random.default_rng(1)
    log_probs = np.log(rng.dirichlet([1, 1, 1], 500))
    bins = rng.integers(0, 2, 500)
    weights = fit_weights(log_probs, bins, 3)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(weights[2], 1 / 3)  # a bin without events

    def penalised(b, w):  # one event shared by the components is the prior w_1^(1/3) w_2^(1/3) w_3^(1/3)
        return combine(log_probs[bins == b], w).sum() + np.log(w).mean()

    for b in range(2):
        for other in rng.dirichlet([1, 1, 1], 300):
            assert penalised(b, other) <= penalised(b, weights[b]) + 1e-4


def test_bins_of_unseen_contexts_of_the_paper_and_ours():
    text = np.array([4, 5, 6, 4, 5, 7, 4, 5, 6, 3], np.int32)
    frequencies = ContextFrequencies.from_counts(count_ngrams(text, V, 3, "stream"))
    contexts = np.array([[4, 5], [7, 5], [8, 8], [0, 0]])
    paper, ours = FrequencyBins(frequencies, back_off=False), FrequencyBins(frequencies)
    rule = [math.ceil(-math.log((1 + x) / frequencies.tokens)) for x in (3, 0, 0, 0)]
    assert paper.find_bins(contexts).tolist() == rule and paper.number == max(rule) + 1
    offset = paper.number
    seen_5 = offset + math.ceil(-math.log((1 + 3) / frequencies.tokens))
    assert ours.find_bins(contexts).tolist() == [rule[0], seen_5, 2 * offset - 1, 2 * offset - 1]
    assert ours.number == 2 * offset
