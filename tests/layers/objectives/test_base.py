"""The unigram start: rare words, and words that are never predicted."""

import numpy as np
import pytest

from keras_nplm.layers.objectives.base import smooth_unigram

COUNTS = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])


def test_words_short_of_their_promised_count_share_the_held_out_mass():
    p, q = smooth_unigram(COUNTS, 11, min_count=4, held_out_mass=0.1)
    short = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    np.testing.assert_allclose(q, short / short.sum())
    np.testing.assert_allclose(p, 0.9 * COUNTS / 10 + 0.1 * q)


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
