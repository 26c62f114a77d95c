"""Segments: contexts are joined only where a segment gives the same ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.segments import cut_segments, join_contexts

ORDER = 4
TARGETS = 3
END = {"stream": None, "sentence": 3, "text": 2}
boundaries = pytest.mark.parametrize("boundary", END)


def cut_plainly(segment, boundary):
    """Return the context of each target of one segment."""
    contexts = []
    for first in range(len(segment) - ORDER + 2):
        context = list(segment[first : first + ORDER - 1])
        for place, word in enumerate(list(context)):
            if word == END[boundary]:
                context[: place + 1] = [2] * (place + 1)
        contexts.append(context)
    return contexts


@boundaries
@settings(max_examples=60)
@given(words=st.lists(st.integers(0, 6), min_size=5, max_size=5))
def test_segments_are_cut_as_networks_read_them(boundary, words):
    found = cut_segments(np.array([words], np.int32), ORDER - 1, boundary)
    assert found.tolist() == [cut_plainly(words, boundary)]


@boundaries
@settings(max_examples=60)
@given(words=st.lists(st.integers(0, 6), min_size=5, max_size=5))
def test_joined_contexts_are_those_of_their_segment(boundary, words):
    windows = np.lib.stride_tricks.sliding_window_view(np.array(words, np.int32), ORDER - 1)
    segments, follows = join_contexts(windows, TARGETS, boundary)
    assert segments.shape == (1, 5)
    # the windows follow each other: they are joined unless the segment says otherwise
    assert follows.tolist() == [cut_plainly(segments[0].tolist(), boundary) == windows.tolist()]
    if END[boundary] not in words:
        assert follows.all()


@boundaries
def test_contexts_of_a_text_are_joined(boundary):
    ids = np.array([4, 5, 6, 3, 5, 3, 6, 6, 4, 4, 3, 4, 5, 4, 3], np.int32)
    if boundary == "text":
        ids = np.insert(ids, [0, 6], 2)
    ngrams = extract_ngrams(ids, ORDER, boundary)
    ngrams = ngrams[: len(ngrams) // TARGETS * TARGETS]
    segments, follows = join_contexts(ngrams[:, :-1], TARGETS, boundary)
    assert follows.all()
    cut = cut_segments(segments, ORDER - 1, boundary)
    np.testing.assert_array_equal(cut.reshape(-1, ORDER - 1), ngrams[:, :-1])
    _, follows = join_contexts(ngrams[::-1, :-1], TARGETS, boundary)
    assert not follows.all()
