"""n-gram counts larger than memory: the n-grams of a text, sorted on disk in partitions by their
contexts.

A row has an n-gram, and stands for one token; or it has two more numbers in front, which are an
int64: the number of tokens. They come from a file of counts.

A partition holds the n-grams whose last context word lies in a range of ids. All that Kneser-Ney
smoothing relates, such as an n-gram and the n-gram without its oldest word, lies in one partition,
which is counted in memory. A context that is too frequent for one partition is split by the word
before it, and so on.
"""

import contextlib
import dataclasses
import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.models.base import row_blocks
from keras_nplm.models.ngrams.sorting import sort_ngrams

BLOCK = 1 << 19  # numbers, or tokens with their n-grams, that are read at a time
IN_MEMORY = 1 << 20  # bytes of a column that need no file
_WEIGHT = 2  # numbers of a row that are the number of its tokens
# iterates over rows, int32 [B, n] or [B, 2 + n], from the beginning
_Blocks = Callable[[], Iterator[np.ndarray]]


class DiskColumn:
    """A column of numbers in a file: appended to its end, then read from its beginning."""

    def __init__(self, file: IO[bytes], dtype: Any):
        self.dtype = np.dtype(dtype)
        self._file = file
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: np.ndarray) -> None:
        """Append numbers, which the type of the column can hold."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self._length += len(values)

    def rewind(self) -> None:
        self._file.seek(0)

    def read(self, number: int) -> np.ndarray:
        return np.frombuffer(self._file.read(number * self.dtype.itemsize), self.dtype)

    def blocks(self) -> Iterator[np.ndarray]:
        self.rewind()
        return (
            self.read(min(BLOCK, len(self) - block.start)) for block in row_blocks(len(self), BLOCK)
        )

    def close(self) -> None:
        self._file.close()


class TemporaryColumns(contextlib.ExitStack):
    """Columns in temporary files without a name, closed at the end of a `with` block; up to 1 MiB
    needs no file.
    """

    def __init__(self, directory: Path):
        super().__init__()
        self._directory = directory

    def open_file(self) -> IO[bytes]:
        return tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(self._directory))

    def add(self, dtype: Any) -> DiskColumn:
        return DiskColumn(self.enter_context(self.open_file()), dtype)


# n-grams counted together in memory: their number for each order, from the lowest order to n
Partition = list[int]


@dataclasses.dataclass(frozen=True)
class SplitContext:
    """A context of `length` words that was counted in several partitions, by its number.

    Length 0: the whole text.

    `children` are the partitions and split contexts of the longer contexts that end with it, in
    their order.
    """

    length: int
    number: int
    num_ngrams: int
    children: "list[Partition | SplitContext]"


class PartitionedCounts:
    """n-gram counts of orders 1 to n on disk, sorted as in `NgramCounts`.

    `read_rows` iterates over rows of at most a number from the beginning, and is called twice.

    `root` is the tree of partitions. `contexts`, `keys` and `counts` are as in `NgramCounts`, with
    the continuation counts below order n. `suffixes`, for k = 3 … n, are places in the same
    partition, without its lowest order. `frequencies`, int64 [n, 6], are the numbers of n-grams of
    each order with a count of 0, 1, … 4, and of 5 or more.
    """

    def __init__(
        self,
        read_rows: Callable[[int], Iterator[np.ndarray]],
        vocabulary_size: int,
        order: int,
        columns: TemporaryColumns,
        max_rows: int,
        update: Callable[[int], object],
        is_weighted: bool = False,
    ):
        self.vocabulary_size = vocabulary_size
        self.order = order
        self._columns = columns
        self._max_rows = max_rows
        self._update = update
        self._block = min(BLOCK, max_rows)
        self._width = order + _WEIGHT * is_weighted
        self.contexts = [columns.add(np.int64) for _ in range(2, order)]
        self.keys = [columns.add(np.int64) for _ in range(order)]
        self.counts = [columns.add(np.int64) for _ in range(order)]
        self.suffixes = [columns.add(np.int32) for _ in range(3, order + 1)]
        self.frequencies = np.zeros((order, 6), np.int64)
        blocks = functools.partial(read_rows, self._block)
        self.root, _ = self._count_split(blocks, (), 0)

    def _weigh(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the number of tokens of each row, int64 [B]; None: one each."""
        if self._width == self.order:
            return None
        return np.ascontiguousarray(rows[:, :_WEIGHT]).view(np.int64)[:, 0]

    def _count_split(
        self, blocks: _Blocks, context: Sequence[int], number: int
    ) -> tuple[SplitContext, np.ndarray]:
        """Count the n-grams of a context, its last word first, and of longer contexts; return the
        words that follow.
        """
        length = len(context)
        size = self.vocabulary_size
        begins_with_bos = length > 0 and context[-1] == BOS_ID
        is_longest = begins_with_bos or length == self.order - 1
        counts = np.zeros(size, np.int64)
        num_older = np.zeros(size, np.int64)
        for block in blocks():
            of_block = np.bincount(block[:, -1], self._weigh(block), size)
            counts += of_block.astype(np.int64, copy=False)
            if is_longest:
                self._update(len(block))
            else:
                num_older += np.bincount(block[:, -2 - length], minlength=size)
        num_older[PAD_ID] = 0
        children, num_preceding = self._count_longer(blocks, context, number, num_older)
        words = np.flatnonzero(counts)
        if is_longest:
            recorded = counts
        else:
            recorded = np.maximum(num_preceding, 1)
            if length == 0:
                recorded[BOS_ID] = counts[BOS_ID]
        self._append(length + 1, number * size + words, recorded[words])
        return SplitContext(length, number, len(words), children), words

    def _count_longer(
        self, blocks: _Blocks, context: Sequence[int], number: int, num_older: np.ndarray
    ) -> tuple[list[Partition | SplitContext], np.ndarray]:
        """Count n-grams of longer contexts; return partitions, and N1+(• context w) of each word w,
        int64 [|V|].
        """
        length = len(context)
        size = self.vocabulary_size
        children: list[Partition | SplitContext] = []
        num_preceding = np.zeros(size, np.int64)
        groups = self._group_words(num_older)
        if len(groups) == 1 and num_older.sum() <= self._max_rows:
            ngrams = np.concatenate([block[block[:, -2 - length] != PAD_ID] for block in blocks()])
            partition = self._count_partition(ngrams, length, number, num_preceding)
            return [partition], num_preceding
        with self._columns.open_file() as file:
            self._distribute(blocks, length, groups, file)
            for words, start, rows in groups:
                if rows <= self._max_rows:
                    ngrams = self._read_rows(file, start, rows)
                    children.append(self._count_partition(ngrams, length, number, num_preceding))
                    continue
                # too many for one partition: the group is of one word, which is split
                word = int(words[0])
                if length == 0:
                    child = word
                else:
                    child = len(self.contexts[length - 1])
                    self.contexts[length - 1].append(np.array([number * size + word]))
                longer = (*context, word)
                read_blocks = functools.partial(self._read_blocks, file, start, rows)
                split, following = self._count_split(read_blocks, longer, child)
                children.append(split)
                num_preceding[following] += 1
        return children, num_preceding

    def _distribute(
        self,
        blocks: _Blocks,
        length: int,
        groups: list[tuple[np.ndarray, int, int]],
        file: IO[bytes],
    ) -> None:
        """Write n-grams to a file, grouped by the word before a context."""
        if not groups:
            return
        group_of = np.full(self.vocabulary_size, len(groups), np.min_scalar_type(len(groups)))
        for number, (members, _, _) in enumerate(groups):
            group_of[members] = number
        place = np.array([start for _, start, _ in groups])  # of the next row of each group
        for block in blocks():
            group = group_of[block[:, -2 - length]]
            by_group = np.argsort(group, kind="stable")
            number_of = np.bincount(group, minlength=len(groups) + 1)[:-1]
            sorted_rows = block[by_group]
            ends = np.cumsum(number_of)
            for i in np.flatnonzero(number_of).tolist():
                file.seek(int(place[i]) * self._width * 4)
                file.write(sorted_rows[ends[i] - number_of[i] : ends[i]].data)
            place += number_of

    def _group_words(self, num_older: np.ndarray) -> list[tuple[np.ndarray, int, int]]:
        """Group words whose n-grams fit into memory together; return (words, first row, rows).

        A word with more n-grams than that is a group of its own.
        """
        words = np.flatnonzero(num_older)
        ends = np.cumsum(num_older[words])
        groups = []
        first = 0
        start = 0
        while first < len(words):
            last = int(np.searchsorted(ends, start + self._max_rows, side="right"))
            last = max(first + 1, last)
            end = int(ends[last - 1])
            groups.append((words[first:last], start, end - start))
            first = last
            start = end
        return groups

    def _read_rows(self, file: IO[bytes], start: int, rows: int) -> np.ndarray:
        file.seek(start * self._width * 4)
        numbers = np.frombuffer(file.read(rows * self._width * 4), np.int32)
        return numbers.reshape(rows, self._width)

    def _read_blocks(self, file: IO[bytes], start: int, rows: int) -> Iterator[np.ndarray]:
        for block in row_blocks(rows, self._block):
            yield self._read_rows(file, start + block.start, min(self._block, rows - block.start))

    def _append(self, order: int, keys: np.ndarray, counts: np.ndarray) -> None:
        self.keys[order - 1].append(keys)
        self.counts[order - 1].append(counts)
        self.frequencies[order - 1] += np.bincount(np.minimum(counts, 5), minlength=6)

    def _count_partition(
        self, ngrams: np.ndarray, length: int, number: int, num_preceding: np.ndarray
    ) -> Partition:
        """Count n-grams in memory, whose contexts end with one of `length` words, and append the
        counts.
        """
        size = self.vocabulary_size
        order = self.order
        weights = self._weigh(ngrams)
        contexts, sorted_ngrams = sort_ngrams(ngrams[:, -order:], length, size, weights)
        bases = [0, *map(len, self.contexts)]  # of the contexts of 1, 2, … words
        for num_words, level in enumerate(contexts, start=order - len(contexts)):
            is_shortest = num_words == length + 1  # its parent is the context that was split
            parents = number if is_shortest else level.parents + bases[num_words - 2]
            self.contexts[num_words - 2].append(parents * size + level.oldest)
        for k, of_order in enumerate(sorted_ngrams, start=length + 2):
            nodes = of_order.nodes + bases[k - 2]
            self._append(k, nodes * size + of_order.words, of_order.counts)
            if k > length + 2:
                self.suffixes[k - 3].append(of_order.suffixes)
        num_preceding += np.bincount(sorted_ngrams[0].words, minlength=size)
        self._update(len(ngrams))
        return [len(of_order.words) for of_order in sorted_ngrams]
