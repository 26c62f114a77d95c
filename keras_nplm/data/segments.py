"""Segments: T consecutive targets with the n-1 words before the first, which share the look-up of
their words.
"""

import numpy as np

from keras_nplm.data.boundary import context_end
from keras_nplm.data.ids import BOS_ID


def join_contexts(
    context_ids: np.ndarray, segment: int, boundary: str
) -> tuple[np.ndarray, np.ndarray]:
    """Join each T contexts, int32 [S T, n-1], to the ids of a segment, [S, n-1+T-1]; see
    `ngram_dataset`.

    Also returns, bool [S], where the segment has the very same contexts: they follow each other in
    a text, and no marker that ends a context stands inside one of them.
    """
    contexts = context_ids.reshape(-1, segment, context_ids.shape[-1])
    words = contexts[:, 1:, -1]
    end = context_end(boundary)
    if end is not None:
        begins = (contexts[:, 1:] == BOS_ID).all(axis=2)
        words = np.where(begins, end, words)
    segments = np.concatenate([contexts[:, 0], words], axis=1)
    is_same = cut_segments(segments, contexts.shape[2], boundary) == contexts
    return segments, is_same.all(axis=(1, 2))


def cut_segments(segments: np.ndarray, context_size: int, boundary: str) -> np.ndarray:
    """Return the contexts of the T targets of segments, int [S, T, n-1], from ids [S, n-1+T-1].

    As a network reads them: the words up to the last marker before a target, `</s>` or with
    `"text"` `<s>`, are `<s>`.

    Example:

    >>> cut_segments(np.array([[5, 6, 3, 7]]), context_size=3, boundary="sentence").tolist()
    [[[2, 2, 2], [2, 2, 7]]]
    """
    windows = np.lib.stride_tricks.sliding_window_view(segments, context_size, axis=1)
    end = context_end(boundary)
    if end is None:
        return windows
    place = np.arange(segments.shape[1])
    last_marker = np.maximum.accumulate(np.where(segments == end, place, -1), axis=1)
    last_marker = last_marker[:, context_size - 1 :, None]  # of those before each target, [S, T, 1]
    places = np.lib.stride_tricks.sliding_window_view(place, context_size)
    return np.where(places > last_marker, windows, BOS_ID)
