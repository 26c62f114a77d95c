"""Segments: how many a text needs, whatever the place at which the first begins."""

import numpy as np
import pytest

from keras_nplm.data.segments import count_segments, segment_positions


def _count_by_hand(targets: int, segment: int) -> int:
    """The most segments that have a target, of all places, 0 to T-1 before the text, where the first may begin."""
    most = 0
    for offset in range(segment):
        starts = range(-offset, targets, segment)
        most = max(most, sum(start + segment > 0 for start in starts if targets))
    return most


@pytest.mark.parametrize("segment", [1, 2, 3, 7, 16])
def test_there_are_as_many_segments_as_the_worst_offset_needs(segment):
    targets = np.arange(40)
    expected = [_count_by_hand(int(number), segment) for number in targets]
    np.testing.assert_array_equal(count_segments(targets, segment), expected)
    assert [int(count_segments(int(number), segment)) for number in targets] == expected


@pytest.mark.parametrize("segment", [2, 3, 5])
@pytest.mark.parametrize("length", [1, 4, 5, 6, 11])
def test_shifted_segments_have_each_word_once(segment, length):
    ids = np.append(np.arange(10, 9 + length), 3).astype(np.int32)
    tokens, positions = segment_positions(ids, 3, "sentence", segment)
    for offset in range(segment):
        targets = [token for first in positions for token in tokens[first - offset : first - offset + segment]]
        assert [token for token in targets if token >= 0] == ids.tolist()
