"""The n-grams of a text in the order of their contexts: sorted runs that fit into memory, merged.

A small text is one run. A run has a row for each token: its n-gram, and a count.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.models.ngrams.columns import Column, TemporaryColumns

MEMORY = 1 << 28  # bytes that counting takes
_KEY_BITS = 63  # of int64
_BYTES_PER_WORD = 80  # of memory for each of the n words of a token's n-gram, as it is counted


def choose_run_size(order: int, memory: int = MEMORY) -> int:
    """Return the number of tokens whose n-grams fit into memory while they are counted."""
    return max(1, memory // (_BYTES_PER_WORD * order))


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
        is_end = (words[:, i - 1] == PAD_ID) | (words[:, i - 1] == BOS_ID)
        words[:, i] = np.where(is_end, PAD_ID, words[:, i])
    rows["count"] = counts
    return rows


@dataclasses.dataclass
class _Run:
    """Sorted rows of a column: those from `start` to `end`, after some in memory."""

    column: Column
    start: int
    end: int
    rows: np.ndarray

    def fill(self, size: int) -> None:
        """Read the next rows if none are in memory."""
        if not len(self.rows):
            self.rows = self.column.read(self.start, min(size, self.end - self.start))
            self.start += len(self.rows)

    def take(self, context: Sequence[int] | None) -> np.ndarray:
        """Return the rows in memory with contexts up to a context, the last word first; or all."""
        first = 0
        end = len(self.rows)
        for column, word in zip(self.rows["words"].T, context or (), strict=False):
            part = column[first:end]
            end = first + int(part.searchsorted(word, "right"))
            first += int(part.searchsorted(word))
        taken = self.rows[:end]
        self.rows = self.rows[end:]
        return taken


def sort_by_context(
    blocks: Iterable[np.ndarray],
    vocabulary_size: int,
    order: int,
    columns: TemporaryColumns,
    size: int,
) -> Iterator[tuple[np.ndarray, bool]]:
    """Sort the rows of blocks, each of at most `size`, which become runs, and merge the runs.

    Yield all rows in the order of their contexts, in blocks of at most about `size`, and whether a
    block is the last. The rows of a context may be in several blocks.
    """
    column = columns.add(find_row_type(order))
    runs = []
    for block in blocks:
        start = len(column)
        column.append(_sort_rows(block, vocabulary_size))
        runs.append(_Run(column, start, len(column), column.read(0, 0)))
    last: list[int] | None = []
    while last is not None:
        for run in runs:
            run.fill(max(1, size // len(runs)))
        # behind the last row in memory, a run may have rows of the same context in the column
        lasts = [run.rows["words"][-1, :-1].tolist() for run in runs if run.start < run.end]
        last = min(lasts, default=None)
        parts = [part for run in runs if len(part := run.take(last))]
        rows = parts[0]
        if len(parts) > 1:
            rows = _sort_rows(np.concatenate(parts), vocabulary_size, are_merged=True)
        yield rows, last is None
    column.close()  # frees its space


def _sort_rows(rows: np.ndarray, vocabulary_size: int, *, are_merged: bool = False) -> np.ndarray:
    """Sort rows by the last word of the context, then by the word before it, and so on.

    If they are runs one after the other, they are merged, which is faster.
    """
    bits = max(1, (vocabulary_size - 1).bit_length())
    keys = np.zeros(len(rows), np.int64)
    used = 0
    for column in rows["words"].T[:-1]:
        if used + bits > _KEY_BITS:
            _, keys = np.unique(keys, return_inverse=True)
            used = len(keys).bit_length()
        keys = keys << bits | column
        used += bits
    places = np.argsort(keys, kind="stable" if are_merged else "quicksort")
    return rows.take(places)  # `[]` takes ten times as long
