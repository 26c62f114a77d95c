"""Kneser-Ney smoothing larger than memory: the tables of the model are estimated and written in
parts.
"""

import os
from collections.abc import Callable, Iterator

import numpy as np

from keras_nplm.data.boundary import check_boundary, predicted_ids
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.io.arrays import open_archive_to_write
from keras_nplm.io.files import replace_file
from keras_nplm.io.progress import open_progress
from keras_nplm.models.ngrams.kneser_ney import compute_logs, discount, estimate_discounts
from keras_nplm.models.ngrams.partitions import (
    Partition,
    PartitionedCounts,
    SplitContext,
    TemporaryColumns,
)

_MEMORY = 1 << 28  # bytes that counting takes
_BYTES_PER_WORD = 48  # of memory for each of the n words of a token's n-gram, as it is counted


def kneser_ney_on_disk(
    path: str | os.PathLike,
    parts: Callable[[], Iterator[np.ndarray]],
    num_tokens: int,
    vocabulary_size: int,
    order: int,
    boundary: str = "sentence",
    memory: int = _MEMORY,
) -> None:
    """Estimate the model of `kneser_ney` for a text whose n-gram counts are larger than memory, bit
    for bit the same.

    Counts and tables are temporary files beside `path`. For order 5 they take up to 100 bytes of
    disk for each token.
    """
    check_boundary(order, boundary)

    def read_rows(size: int) -> Iterator[np.ndarray]:
        return ngram_blocks(parts(), order, boundary, size)

    smooth_rows(path, read_rows, num_tokens, vocabulary_size, order, boundary, memory)


def smooth_rows(
    path: str | os.PathLike,
    read_rows: Callable[[int], Iterator[np.ndarray]],
    num_rows: int,
    vocabulary_size: int,
    order: int,
    boundary: str,
    memory: int = _MEMORY,
    *,
    is_weighted: bool = False,
) -> None:
    """Estimate the model of `kneser_ney` from rows of n-grams; see `PartitionedCounts`."""
    max_rows = max(1, memory // (_BYTES_PER_WORD * order))
    with replace_file(path) as temporary, TemporaryColumns(temporary.parent) as columns:
        with open_progress("Counting n-grams", num_rows) as progress:
            counts = PartitionedCounts(
                read_rows,
                vocabulary_size,
                order,
                columns,
                max_rows,
                progress.update,
                is_weighted,
            )
        with open_progress("Smoothing", sum(map(len, counts.keys)), " n-grams") as progress:
            tables = _SmoothedTables(counts, boundary, columns, progress.update)
        for column in (*counts.counts, *counts.suffixes):
            column.close()
        with open_archive_to_write(temporary) as write:
            float32 = np.dtype(np.float32)
            write("unigrams", float32, (vocabulary_size,), [tables.unigrams])
            if order > 1:
                write("backoffs.0", float32, (vocabulary_size,), [tables.first_backoffs])
            for name, of_orders, first in (
                ("contexts", counts.contexts, 0),
                ("keys", counts.keys[1:], 0),
                ("log_probs", tables.log_probs, 0),
                ("backoffs", tables.backoffs, 1),
            ):
                for i, column in enumerate(of_orders, start=first):
                    write(f"{name}.{i}", column.dtype, (len(column),), column.blocks())
                    column.close()  # frees its space


class _SmoothedTables:
    """Log-probabilities and back-off weights on disk, in the order of the n-grams and contexts of
    the counts.
    """

    def __init__(
        self,
        counts: PartitionedCounts,
        boundary: str,
        columns: TemporaryColumns,
        update: Callable[[int], object],
    ) -> None:
        self._counts = counts
        self._update = update
        self._discounts = [estimate_discounts(of_order) for of_order in counts.frequencies]
        size = counts.vocabulary_size
        self.unigrams = np.zeros(size, np.float32)
        self.first_backoffs = np.zeros(size, np.float32)
        self.log_probs = [columns.add(np.float32) for _ in range(2, counts.order + 1)]
        self.backoffs = [columns.add(np.float32) for _ in range(2, counts.order)]
        for column in (*counts.keys, *counts.counts, *counts.suffixes):
            column.rewind()
        uniform = np.zeros(size)
        predicted = predicted_ids(size, boundary)
        uniform[predicted] = 1 / len(predicted)
        self._smooth_split(counts.root, uniform)

    def _read(self, order: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read the next n-grams of an order: numbers of their contexts, words, and counts."""
        keys = self._counts.keys[order - 1].read(number)
        counts = self._counts.counts[order - 1].read(number)
        self._update(number)
        nodes, words = np.divmod(keys, self._counts.vocabulary_size)
        return nodes, words, counts

    def _smooth_split(self, context: SplitContext, lower: np.ndarray) -> None:
        """Smooth the n-grams of a context, and those of longer contexts that end with it.

        `lower` are P(w | h') of all words, float64 [|V|].
        """
        _, words, counts = self._read(context.length + 1, context.num_ngrams)
        nodes = np.zeros(len(counts), np.int64)
        discounted, gamma = discount(counts, nodes, 1, self._discounts[context.length])
        probability = gamma * lower
        probability[words] += discounted
        if context.length == 0:
            self.unigrams = compute_logs(probability)
        else:
            self.log_probs[context.length - 1].append(compute_logs(probability[words]))
            self._store_backoffs(context.length, context.number, gamma)
        for child in context.children:
            if isinstance(child, SplitContext):
                self._smooth_split(child, probability)
            else:
                self._smooth_partition(child, context.length, probability)

    def _smooth_partition(self, partition: Partition, length: int, lower: np.ndarray) -> None:
        """Smooth the n-grams of a partition, whose contexts end with one of `length` words.

        `lower` are P(w | h') of all words, float64 [|V|], for the lowest order.
        """
        for k, number in enumerate(partition, start=length + 2):
            nodes, words, counts = self._read(k, number)
            suffix = words if k == length + 2 else self._counts.suffixes[k - 3].read(number)
            if not number:
                continue
            first = int(nodes[0])
            nodes -= first
            discounted, gamma = discount(counts, nodes, int(nodes[-1]) + 1, self._discounts[k - 1])
            lower = discounted + gamma[nodes] * lower[suffix]
            self.log_probs[k - 2].append(compute_logs(lower))
            self._store_backoffs(k - 1, first, gamma)

    def _store_backoffs(self, length: int, first: int, gamma: np.ndarray) -> None:
        if length == 1:
            self.first_backoffs[first : first + len(gamma)] = compute_logs(gamma)
        else:
            self.backoffs[length - 2].append(compute_logs(gamma))
