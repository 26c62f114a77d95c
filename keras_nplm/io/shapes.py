"""Shapes that follow from options: blocks of the context, clusters of the adaptive softmax.

Imports no Keras.
"""

import itertools
from collections.abc import Sequence

from keras_nplm.io.errors import InputError


def check_averages(averages_after: Sequence[int]) -> None:
    """Refuse distances that do not rise: the averaged spans of a context follow each other without
    a gap.
    """
    if list(averages_after) != sorted({*averages_after}) or min(averages_after, default=0) < 0:
        raise InputError(
            f"`averages_after` must rise from 0 or more. Received: {list(averages_after)}. Fix: "
            "sort the distances and keep each once."
        )


def number_of_blocks(order: int, averages_after: Sequence[int]) -> int:
    """Count the vectors of m components in x: n-1 words, or the near words and one average for each
    span.
    """
    return averages_after[0] + len(averages_after) if averages_after else order - 1


def count_matched(positions: int) -> int:
    """Return how many words before a position a pointer compares with those before the target."""
    return max(1, min(3, positions // 2))


def choose_cutoffs(vocabulary_size: int, cutoffs: Sequence[int] | None = None) -> tuple[int, ...]:
    """Return the first id of each cluster of an adaptive softmax, by default a ninth and two fifths
    of |V|.
    """
    cutoffs = tuple(cutoffs or (max(1, vocabulary_size // 9), max(2, vocabulary_size * 2 // 5)))
    ends = (0, *cutoffs, vocabulary_size)
    if any(left >= right for left, right in itertools.pairwise(ends)):
        raise InputError(
            f"`cutoffs` must ascend strictly between 0 and {vocabulary_size}. Received: {cutoffs}. "
            "Fix: give rising ids below the vocabulary size, or leave the option out."
        )
    return cutoffs


def cluster_width(width: int, cluster: int) -> int:
    """Return the number of features of cluster i = 1, 2, … of an adaptive softmax: width / 4^i, 4
    at least.
    """
    return min(width, max(4, width // 4**cluster))
