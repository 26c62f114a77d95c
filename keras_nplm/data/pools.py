"""Pools of n-grams of shards or resampled texts: the blocks that are permuted together."""

import numpy as np

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.boundary import find_targets
from keras_nplm.data.layouts import Layout
from keras_nplm.data.ngram_arrays import arrange_ngrams
from keras_nplm.data.resampling import Resampled, count_resampled
from keras_nplm.data.shards import ShardedIds

BLOCK = 1 << 17  # ids of shards that are read together: 512 KiB
RESAMPLED_BLOCK = 1 << 12  # the same for resampled shards: smaller blocks make epochs more random
ARRAY_BLOCK = 1 << 8  # ids of a resampled array that an epoch uses together
POOL = 1 << 22  # approximate number of n-grams that a worker permutes together


class Blocks:
    """A text cut into blocks of n-grams, or of segments, which are read one by one.

    An n-gram belongs to the block of its target.

    Attributes:
        ngrams: int64, how many n-grams, or segments, each block has.
        before: int64, how many come before each block.
    """

    def __init__(self, ids: ShardedIds | np.ndarray, layout: Layout, size: int):
        self._ids = ids
        self._layout = layout
        self._size = size
        counted = self._count_ids() if layout.counts_every_id else self._count_found_ids()
        self.ngrams = layout.count_places(counted)
        self.before = np.cumsum(self.ngrams) - self.ngrams

    def _read(self, start: int, stop: int) -> np.ndarray:
        if isinstance(self._ids, ShardedIds):
            return self._ids.read(start, stop)
        return self._ids[start:stop]

    def _count_ids(self) -> np.ndarray:
        """Count the ids of each block, int64."""
        starts = np.arange(0, len(self._ids), self._size)
        return np.minimum(starts + self._size, len(self._ids)) - starts

    def _count_found_ids(self) -> np.ndarray:
        """Count the ids of each block that the layout counts, int64."""
        read_size = self._size * max(1, BLOCK // self._size)
        sums = [np.zeros(0, np.int64)]
        for start in range(0, len(self._ids), read_size):
            ids = self._read(start, min(start + read_size, len(self._ids)))
            firsts = np.arange(0, len(ids), self._size)
            found = self._layout.find_counted(ids)
            sums.append(np.add.reduceat(found, firsts, dtype=np.int64))
        return np.concatenate(sums)

    def load(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a block as its layout arranges it, with contexts from the text before."""
        start = block * self._size
        ids = self._read(start, min(start + self._size, len(self._ids)))
        tokens, positions = self._layout.arrange(ids)
        self._layout.insert_context(tokens, self._read_context(start))
        return tokens, positions

    def _read_context(self, stop: int) -> np.ndarray:
        """Read the context of the n-gram at a place, int32 [n-1]."""
        order = self._layout.order
        boundary = self._layout.boundary
        size = order - 1
        length = size
        while True:
            ids = self._read(max(0, stop - length), stop)
            if np.count_nonzero(find_targets(ids, boundary)) >= size or length >= stop:
                tokens, _ = arrange_ngrams(ids, order, boundary)
                return tokens[-size:]
            length *= 2


class Pools:
    """The n-grams of an epoch in pools, which are permuted one by one.

    An epoch has of each text its share of the n-grams, once. The seed determines an order of the
    blocks of each text. An epoch has the next round(c N) n-grams in this order, with parts of the
    first and the last block, and shuffles these blocks. A pool has the next blocks of each text.
    Several workers divide the n-grams of each text in each pool. A worker reads the blocks of its
    own `part` only. With a layout of segments, segments take the place of n-grams.

    Attributes:
        number: number of n-grams in an epoch of all workers.
        count: number of pools in an epoch.
    """

    def __init__(
        self,
        ids: ShardedIds | Resampled,
        layout: Layout,
        shuffle: bool = True,
        seed: int = 0,
        part: tuple[int, int] = (0, 1),
    ):
        self._shuffle = shuffle
        self._seed = fold_seed(seed)
        self._texts = _cut_texts(ids, layout)
        self._cycles = [self._order_blocks(i, text.ngrams) for i, text in enumerate(self._texts)]
        shares = ids.shares if isinstance(ids, Resampled) else [1.0]
        sizes = [text.ngrams.sum() for text in self._texts]
        self._counts = list(map(count_resampled, shares, sizes))
        self.number = sum(self._counts)
        worker, workers = part
        self.count = -(-self.number // (POOL * workers))
        pools = np.arange(self.count + 1)[:, None]
        ends = pools * np.array(self._counts) // self.count  # [pools + 1, texts]
        divided = divide_evenly(np.diff(ends, axis=0), workers) + ends[:-1]
        # of this worker, [pools, texts]
        self._starts = divided[worker]
        self._stops = divided[worker + 1]

    def _order_blocks(self, text: int, ngrams: np.ndarray) -> np.ndarray:
        """Return rows of (block, 0, number of its n-grams), in the order of their use."""
        order = np.flatnonzero(ngrams)
        if self._shuffle:
            order = np.random.default_rng([self._seed, text]).permutation(order)
        return np.column_stack([order, np.zeros_like(order), ngrams[order]])

    def _select_blocks(self, text: int, epoch: int) -> np.ndarray:
        """Return rows of (block, first n-gram, n-gram after the last) of an epoch, in its order."""
        cycle = self._cycles[text]
        count = self._counts[text]
        size = int(self._texts[text].ngrams.sum())
        start = int(epoch) * count % size
        to_the_end = slice_rows(cycle, start, start + count)
        from_the_beginning = slice_rows(cycle, 0, start + count - size)
        rows = np.concatenate([to_the_end, from_the_beginning])
        if not self._shuffle:
            return rows
        return np.random.default_rng([self._seed, text, int(epoch) + 1]).permutation(rows)

    def place(self, ngrams: int) -> tuple[int, int]:
        """Find the place after the first n-grams of an epoch: a pool, and its n-grams to skip."""
        ends = np.cumsum((self._stops - self._starts).sum(axis=1))
        pool = int(np.searchsorted(ends, ngrams, side="right"))
        before = ends[pool - 1] if pool else 0
        return pool, int(ngrams - before)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a pool of an epoch: tokens and positions, int32, as its layout arranges them."""
        tokens = [np.zeros(0, np.int32)]
        positions = [np.zeros(0, np.int32)]
        size = 0
        for text, rows in zip(self._texts, self._select_rows(epoch, pool), strict=True):
            for block, first, stop in rows.tolist():
                block_tokens, block_positions = text.load(block)
                tokens.append(block_tokens)
                positions.append((block_positions[first:stop] + size).astype(np.int32))
                size += len(block_tokens)
        return np.concatenate(tokens, dtype=np.int32), np.concatenate(positions)

    def number_ngrams(self, epoch: int, pool: int) -> np.ndarray:
        """Number the n-grams of a pool by their places in the joined texts, int32 [N].

        They are in the order of `load`.
        """
        numbers = [np.zeros(0, np.int32)]
        before = 0
        for text, rows in zip(self._texts, self._select_rows(epoch, pool), strict=True):
            for block, first, stop in rows.tolist():
                start = before + text.before[block]
                numbers.append(np.arange(start + first, start + stop, dtype=np.int32))
            before += text.ngrams.sum()
        return np.concatenate(numbers)

    def _select_rows(self, epoch: int, pool: int) -> list[np.ndarray]:
        """Return rows of (block, first n-gram, n-gram after the last) of a pool, for each text."""
        bounds = zip(self._starts[pool], self._stops[pool], strict=True)
        selected = []
        for text, (start, stop) in enumerate(bounds):
            selected.append(slice_rows(self._select_blocks(text, epoch), start, stop))
        return selected


def _cut_texts(ids: ShardedIds | Resampled, layout: Layout) -> list[Blocks]:
    """Cut each text into blocks. Their size depends on the storage of the text."""
    if isinstance(ids, ShardedIds):
        return [Blocks(ids, layout, BLOCK)]
    blocks = []
    for text in ids.texts:
        size = ARRAY_BLOCK if isinstance(text, np.ndarray) else RESAMPLED_BLOCK
        blocks.append(Blocks(text, layout, size))
    return blocks


def divide_evenly(sizes: np.ndarray, workers: int) -> np.ndarray:
    """Divide runs of n-grams among workers, so that their totals differ by at most one.

    `sizes` are the lengths of the runs. Returns int [N + 1, ...]: worker w has the n-grams from row
    w to row w + 1 of each run.
    """
    rest = (sizes % workers).reshape(-1)
    # the worker that has the next n-gram which does not divide
    turn = (np.cumsum(rest) - rest) % workers
    extra = (np.arange(workers)[:, None] - turn) % workers < rest
    none = np.zeros((1, len(rest)), np.int64)
    more = np.concatenate([none, np.cumsum(extra, axis=0)]).reshape(-1, *sizes.shape)
    numbers = np.arange(workers + 1).reshape(-1, *[1] * sizes.ndim)
    return numbers * (sizes // workers) + more


def slice_rows(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Slice n-grams, which are rows of (block, first, after the last), by places."""
    sizes = rows[:, 2] - rows[:, 1]
    ends = np.cumsum(sizes)
    begins = ends - sizes
    inside = (begins < stop) & (ends > start)
    block, first, _ = rows[inside].T
    begins = begins[inside]
    ends = ends[inside]
    after = first + np.minimum(stop, ends) - begins
    return np.column_stack([block, first + np.maximum(start - begins, 0), after])
