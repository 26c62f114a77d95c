"""The edit distance between sequences of words, of many pairs at once."""

from collections.abc import Sequence

import numpy as np

_PAIRS = 4096  # at a time: their tables stay in cache


def edit_distances(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> np.ndarray:
    """The fewest insertions, deletions and substitutions of words between the two of each pair.

        D[i, j] = min(D[i-1, j] + 1, D[i, j-1] + 1, D[i-1, j-1] + (r_i != w_j))

    All pairs go through row i together; within a row, min_k D'[i, k] + (j - k) is a running minimum.

    Args:
        hypotheses: B sequences of words.
        references: as many.

    Returns:
        int64 [B].

    Example:

    >>> edit_distances([["the", "cat"], []], [["the", "old", "cat"], ["a"]])
    array([1, 1])

    Reference: Levenshtein (1966), Binary codes capable of correcting deletions, insertions, and reversals.
    """
    result = np.zeros(len(hypotheses), np.int64)
    order = np.argsort([-len(reference) for reference in references], kind="stable")
    for first in range(0, len(order), _PAIRS):
        part = order[first : first + _PAIRS]
        result[part] = _distances([hypotheses[i] for i in part], [references[i] for i in part])
    return result


def _distances(hypotheses: list[Sequence[str]], references: list[Sequence[str]]) -> np.ndarray:
    """The same of pairs of which the longest references come first."""
    numbers: dict[str, int] = {}
    words, lengths = _padded(hypotheses, numbers, -1)  # [B, L]
    reference_words, reference_lengths = _padded(references, numbers, -2)  # [B, R]
    places = np.arange(words.shape[1] + 1, dtype=np.int32)
    row = np.tile(places, (len(words), 1))  # D[i, :] of each pair, [B, L + 1]
    result = lengths.astype(np.int64)
    for i in range(reference_words.shape[1]):
        active = int(np.searchsorted(-reference_lengths, -i))  # pairs whose references go on
        substituted = row[:active, :-1] + (words[:active] != reference_words[:active, i, None])
        row = row[:active] + 1
        np.minimum(row[:, 1:], substituted, out=row[:, 1:])
        row -= places
        np.minimum.accumulate(row, axis=1, out=row)
        row += places
        ended = np.flatnonzero(reference_lengths[:active] == i + 1)
        result[ended] = row[ended, lengths[ended]]
    return result


def _padded(sequences: list[Sequence[str]], numbers: dict[str, int], padding: int) -> tuple[np.ndarray, np.ndarray]:
    """Words as numbers, int32 [B, L], and lengths, int32 [B]."""
    lengths = np.array([len(words) for words in sequences], np.int32)
    flat = [numbers.setdefault(word, len(numbers)) for words in sequences for word in words]
    padded = np.full((len(sequences), lengths.max(initial=0)), padding, np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = flat
    return padded, lengths
