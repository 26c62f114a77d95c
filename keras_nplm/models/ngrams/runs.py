"""The n-grams of a text in the order of their contexts: sorted runs that fit into memory, merged.

A small text is one run. A run has a row for each token: its n-gram, and a count.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.models.ngrams.columns import Column, TemporaryColumns
from keras_nplm.models.ngrams.tables import sort_with_places

_KEY_BITS = 63  # of int64


def find_row_type(order: int) -> np.dtype:
    return np.dtype([("words", np.int32, (order,)), ("count", np.int64)])


def make_rows(ngrams: np.ndarray, counts: np.ndarray | int = 1) -> np.ndarray:
    """Return rows of n-grams, int32 [B, n], and their counts.

    `words` of a row are the context, the last word first, and then the word that is predicted.
    After the first `<s>`, a context has no words: `<pad>`.
    """
    order = ngrams.shape[1]
    rows = np.empty(len(ngrams), find_row_type(order))
    words = rows["words"]
    words[:, -1] = ngrams[:, -1]
    words[:, :-1] = ngrams[:, -2::-1]
    for i in range(1, order - 1):
        words[(words[:, i - 1] == PAD_ID) | (words[:, i - 1] == BOS_ID), i] = PAD_ID
    rows["count"] = counts
    return rows


@dataclasses.dataclass
class Runs:
    """Sorted runs of rows, one after the other in a column."""

    rows: Column
    starts: list[int]
    ends: list[int]


def sort_runs(
    blocks: Iterable[np.ndarray], vocabulary_size: int, order: int, columns: TemporaryColumns
) -> Runs:
    """Sort each block of rows by context: it becomes a run."""
    runs = Runs(columns.add(find_row_type(order)), [], [])
    for rows in blocks:
        runs.starts.append(len(runs.rows))
        runs.rows.append(_sort_rows(rows, vocabulary_size))
        runs.ends.append(len(runs.rows))
    return runs


def merge_runs(runs: Runs, vocabulary_size: int, size: int) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield all rows in the order of their contexts, in blocks of at most `size`, and whether a
    block is the last.

    The rows of a context may be in several blocks.
    """
    number = len(runs.starts)
    step = max(1, size // number)
    places = [*runs.starts]
    buffers = [runs.rows.read(0, 0)] * number
    is_last = False
    while not is_last:
        for i, end in enumerate(runs.ends):
            if not len(buffers[i]):
                buffers[i] = runs.rows.read(places[i], min(step, end - places[i]))
                places[i] += len(buffers[i])
        # the rows behind the last one of a buffer are still in the column
        lasts = [
            tuple(buffer["words"][-1, :-1].tolist())
            for buffer, place, end in zip(buffers, places, runs.ends, strict=True)
            if place < end
        ]
        is_last = not lasts
        sizes = [len(buffer) if is_last else _find_end(buffer, min(lasts)) for buffer in buffers]
        parts = [buffer[:size] for buffer, size in zip(buffers, sizes, strict=True) if size]
        rows = parts[0] if len(parts) == 1 else _sort_rows(np.concatenate(parts), vocabulary_size)
        yield rows, is_last
        buffers = [buffer[size:] for buffer, size in zip(buffers, sizes, strict=True)]


def _find_end(rows: np.ndarray, context: tuple[int, ...]) -> int:
    """Return the number of sorted rows with contexts up to a context."""
    first = 0
    end = len(rows)
    for column, word in zip(rows["words"].T, context, strict=False):
        part = column[first:end]
        end = first + int(part.searchsorted(word, "right"))
        first += int(part.searchsorted(word))
    return end


def _sort_rows(rows: np.ndarray, vocabulary_size: int) -> np.ndarray:
    """Sort rows by the last word of the context, then by the word before it, and so on."""
    bits = max(1, (vocabulary_size - 1).bit_length())
    keys = np.zeros(len(rows), np.int64)
    used = 0
    for column in rows["words"].T[:-1]:
        if used + bits > _KEY_BITS:
            _, keys = np.unique(keys, return_inverse=True)
            used = len(keys).bit_length()
        keys = keys << bits | column
        used += bits
    _, places = sort_with_places(keys)
    return rows.take(places)  # `[]` takes ten times as long
