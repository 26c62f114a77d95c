"""The unigram start: rare words, and words that are never predicted."""

import numpy as np
import pytest

from keras_nplm import Likelihood
from keras_nplm.layers.objectives.base import smooth_unigram
from keras_nplm.layers.scores import StoredScores

COUNTS = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])


def test_words_short_of_their_promised_count_share_the_held_out_mass():
    p, q = smooth_unigram(COUNTS, 11, min_count=4, held_out_mass=0.1)
    short = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    np.testing.assert_allclose(q, short / short.sum())
    np.testing.assert_allclose(p, 0.9 * COUNTS / 10 + 0.1 * q)


def test_unseen_words_share_the_held_out_mass_without_a_promise():
    _, q = smooth_unigram(COUNTS, 11, held_out_mass=0.1)
    np.testing.assert_allclose(q, [0] * 6 + [0.2] * 5)


def test_the_likelihood_of_the_paper_is_the_default():
    y = np.random.default_rng(0).normal(size=(4, 11)).astype(np.float32)
    targets = np.array([1, 3, 9, 4], np.int32)
    expected = np.logaddexp.reduce(y, axis=1) - y[np.arange(4), targets]
    for found in Likelihood().losses(StoredScores(y), targets):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_label_smoothing_takes_the_held_out_distribution():
    objective = Likelihood(held_out_mass=0.1)
    objective.build((None, 11))
    np.testing.assert_allclose(objective.q, np.full(11, 1 / 11), rtol=1e-6)
    p, q = smooth_unigram(COUNTS, 11, min_count=4, held_out_mass=0.1)
    objective.set_unigram(p, q)
    np.testing.assert_allclose(objective.q, q)


@pytest.mark.parametrize(
    "change, word, share",
    [
        # 10 tokens, and 5 words counted once each
        pytest.param({}, 6, 1 / 15, id="a word never seen counts as seen once"),
        pytest.param({1: 0}, 1, 1 / 11, id="unknown words may always come"),
        pytest.param({3: 5}, 3, 5 / 20, id="the end of a sentence, if training has it"),
        pytest.param({}, 2, 0, id="never predicted"),
    ],
)
def test_words_begin_with_their_frequency_or_as_seen_once(change, word, share):
    counts = COUNTS.copy()
    for changed, count in change.items():
        counts[changed] = count
    p, _ = smooth_unigram(counts, 11)
    assert p[word] == pytest.approx(share)
    assert p[0] == 0
