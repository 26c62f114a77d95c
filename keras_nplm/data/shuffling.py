"""Shuffle the n-grams of a text larger than memory: blocks in random order, several of them permuted together."""

from collections.abc import Iterable, Iterator

import numpy as np

from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.io.errors import InputError
from keras_nplm.io.seeds import fold_seed

BLOCK = 1 << 17  # ids that are read together: 512 KiB
POOL = 32  # blocks whose n-grams are permuted together


class Blocks:
    """A text cut into blocks of ids, read one by one. An n-gram belongs to the block of its target."""

    def __init__(self, ids: ShardedIds, order: int, boundary: str, size: int, targets_below: int | None = None):
        ngram_positions(np.array([EOS_ID + 1, EOS_ID]), order, boundary)  # checks the options
        self._ids, self._order, self._boundary, self._size = ids, order, boundary, size
        self._targets_below = targets_below
        starts = np.arange(0, len(ids), size)
        if boundary == "sentence" and targets_below is None:  # every id is a target
            self.ngrams = np.minimum(starts + size, len(ids)) - starts
        else:
            read_size = size * max(1, BLOCK // size)
            parts = ((self._find_targets(part), np.arange(0, len(part), size)) for part in ids.parts(read_size))
            sums = [np.add.reduceat(targets, firsts, dtype=np.int64) for targets, firsts in parts]
            self.ngrams = np.concatenate([np.zeros(0, np.int64), *sums])
        if not self.ngrams.sum():
            raise InputError("The text has no word to predict. Fix: add text.")

    def _find_targets(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it is the target of an n-gram, bool [T]."""
        targets = ids != EOS_ID if self._boundary == "stream" else np.ones(len(ids), bool)
        return targets if self._targets_below is None else targets & (ids < self._targets_below)

    def load(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a block: its n-grams as `ngram_positions` arranges them, with contexts from the text before."""
        start = block * self._size
        ids = self._ids.read(start, min(start + self._size, len(self._ids)))
        tokens, positions = ngram_positions(ids, self._order, self._boundary, self._targets_below)
        context = self._read_context(start)
        tokens[self._order - 1 - len(context) : self._order - 1] = context
        return tokens, positions

    def _read_context(self, stop: int) -> np.ndarray:
        """Read the n-1 words before a place, or fewer at the beginning of the text or of a sentence."""
        size = self._order - 1
        length = size
        while True:
            ids = self._ids.read(max(0, stop - length), stop)
            if self._boundary == "sentence":
                ends = np.flatnonzero(ids == EOS_ID)
                return ids[ends[-1] + 1 :] if len(ends) else ids
            words = ids[ids != EOS_ID]
            if len(words) >= size or length >= stop:
                return words[-size:]
            length *= 2


def concatenate_texts(texts: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Concatenate texts that `ngram_positions` arranged."""
    tokens, positions, size = [np.zeros(0, np.int32)], [], 0
    for part, part_positions in texts:
        tokens.append(part)
        positions.append((part_positions + size).astype(np.int32))
        size += len(part)
    return np.concatenate(tokens, dtype=np.int32), positions


class Pools:
    """The n-grams of shards in pools, for shuffling: each n-gram is in one pool of each epoch.

    An epoch has the blocks of the text in a random order, and a pool is the next `POOL` blocks. Several workers divide
    this order into runs of as many n-grams each. A worker reads the blocks of its own run only.

    With `shuffle` each epoch has its own order of blocks. `part` (w, N) is the run of worker w, from 0, of N workers.
    `number` is the number of n-grams in an epoch of all workers, `count` its number of pools. A worker's pools after
    the blocks of its run are empty.
    """

    def __init__(
        self,
        ids: ShardedIds,
        order: int,
        boundary: str,
        *,
        shuffle: bool = True,
        seed: int = 0,
        targets_below: int | None = None,
        part: tuple[int, int] = (0, 1),
    ):
        self._blocks = Blocks(ids, order, boundary, BLOCK, targets_below)
        self._shuffle, self._seed, self._pool = shuffle, fold_seed(seed), POOL
        self.number = int(self._blocks.ngrams.sum())
        self.count = -(-len(self._blocks.ngrams) // self._pool)
        worker, workers = part
        self._run = worker * self.number // workers, (worker + 1) * self.number // workers

    def _order_blocks(self, epoch: int) -> np.ndarray:
        """Return rows of (block, first n-gram, n-gram after the last) of this worker, in the order of an epoch."""
        blocks = np.arange(len(self._blocks.ngrams))
        if self._shuffle:
            blocks = np.random.default_rng([self._seed, epoch]).permutation(blocks)
        rows = np.column_stack([blocks, np.zeros_like(blocks), self._blocks.ngrams[blocks]])
        return rows if self._run == (0, self.number) else slice_rows(rows, *self._run)

    def place(self, epoch: int, ngrams: int) -> tuple[int, int]:
        """Find the place after the first `ngrams` n-grams of an epoch: a pool, and how many of its n-grams to skip."""
        _, first, stop = self._order_blocks(epoch).T
        return find_pool(np.add.reduceat(stop - first, np.arange(0, len(first), self._pool)), ngrams)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a pool of an epoch: tokens int32 and positions int32, as `ngram_positions` arranges them."""
        rows = self._order_blocks(epoch)[pool * self._pool : (pool + 1) * self._pool]
        return merge_blocks(load_rows(self._blocks, rows[rows[:, 1] < rows[:, 2]]))


def load_rows(blocks: Blocks, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Read blocks, given as rows of (block, first n-gram, n-gram after the last): tokens and positions of each."""
    for block, first, stop in rows.tolist():
        tokens, positions = blocks.load(block)
        yield tokens, positions[first:stop]


def slice_rows(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Slice n-grams that are given as rows of (block, first, after the last): those at places `start` to `stop`."""
    sizes = rows[:, 2] - rows[:, 1]
    ends = np.cumsum(sizes)
    begins = ends - sizes
    inside = (begins < stop) & (ends > start)
    (block, first, _), begins, ends = rows[inside].T, begins[inside], ends[inside]
    return np.column_stack([block, first + np.maximum(start - begins, 0), first + np.minimum(stop, ends) - begins])


def merge_blocks(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Merge blocks, given as (tokens, positions), into one text."""
    tokens, positions = concatenate_texts(blocks)
    return tokens, np.concatenate([np.zeros(0, np.int32), *positions])


def find_pool(sizes: np.ndarray, ngrams: int) -> tuple[int, int]:
    """Find the place after the first `ngrams` n-grams: a pool, and how many of its n-grams to skip."""
    ends = np.cumsum(sizes)
    pool = int(np.searchsorted(ends, ngrams, side="right"))
    return pool, int(ngrams - (ends[pool - 1] if pool else 0))
