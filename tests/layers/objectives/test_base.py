"""The unigram start: rare words, words that are never predicted, short-lists."""

import numpy as np
import pytest

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


def test_a_word_never_seen_counts_as_seen_once_without_held_out_mass():
    p, _ = smooth_unigram(COUNTS, 11)
    assert p[6] == pytest.approx(1 / 15)  # 10 tokens, and 5 words counted once each
    np.testing.assert_array_equal(p[[0, 2, 3]], 0)  # never predicted


def test_unknown_words_may_always_come():
    counts = COUNTS * (np.arange(11) != 1)
    p, _ = smooth_unigram(counts, 11)
    assert p[1] == pytest.approx(1 / 11)


def test_the_end_of_a_sentence_is_predicted_if_training_has_it():
    counts = COUNTS.copy()
    counts[3] = 5
    p, _ = smooth_unigram(counts, 11)
    assert p[3] == pytest.approx(5 / 20)


def test_a_short_list_has_the_frequencies_of_its_words():
    p, q = smooth_unigram(COUNTS, 6, held_out_mass=0.1)
    assert p.shape == q.shape == (6,)
    np.testing.assert_allclose(p.sum(), 1)


def test_new_words_have_the_greatest_share_of_the_held_out_words():
    grown = append_held_out(np.array([0.5, 0.2, 0.3]), 2)
    np.testing.assert_allclose(grown, np.array([0.5, 0.2, 0.3, 0.5, 0.5]) / 2)
