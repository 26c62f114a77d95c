"""The unigram start: rare words, words that are never predicted, short-lists."""

import numpy as np
import pytest

from keras_nplm import Likelihood
from keras_nplm.layers.objectives.base import append_held_out, smooth_unigram

COUNTS = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])


def test_words_short_of_their_promised_count_share_the_held_out_mass():
    p, q = smooth_unigram(COUNTS, 11, min_count=4, held_out_mass=0.1)
    short = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    np.testing.assert_allclose(q, short / short.sum())
    np.testing.assert_allclose(p, 0.9 * COUNTS / 10 + 0.1 * q)


def test_q_is_uniform_if_no_word_is_short():
    counts = np.array([0, 5, 0, 0, 3, 2])
    _, q = smooth_unigram(counts, 6, held_out_mass=0.1)
    np.testing.assert_allclose(q, [0, 1 / 3, 0, 0, 1 / 3, 1 / 3])


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


def test_a_short_list_has_the_frequencies_of_its_words():
    p, q = smooth_unigram(COUNTS, 6, held_out_mass=0.1)
    assert p.shape == q.shape == (6,)
    np.testing.assert_allclose(p.sum(), 1)


def test_new_words_have_the_greatest_share_of_the_held_out_words():
    grown = append_held_out(np.array([0.5, 0.2, 0.3]), 2)
    np.testing.assert_allclose(grown, np.array([0.5, 0.2, 0.3, 0.5, 0.5]) / 2)


def test_label_smoothing_is_uniform_until_the_held_out_words_are_known():
    objective = Likelihood(held_out_mass=0.2)
    objective.build((None, 7))
    np.testing.assert_allclose(objective.q.numpy(), 1 / 7, rtol=1e-6)
    q = np.random.default_rng(0).dirichlet(np.ones(7))
    objective.set_unigram(np.ones(7) / 7, q)
    np.testing.assert_allclose(objective.q.numpy(), q, rtol=1e-6)
