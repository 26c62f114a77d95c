"""Pools of a text: the n-grams, or segments, that are permuted together.

A text in memory is one pool. Shards and resampled texts have many, which are made of blocks.
"""

import abc

import numpy as np
import tensorflow as tf

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.boundary import find_targets
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.layouts import Layout
from keras_nplm.data.ngram_arrays import arrange_ngrams
from keras_nplm.data.resampling import Resampled, TextIds, count_resampled
from keras_nplm.data.shards import ShardedIds

BLOCK = 1 << 17  # ids of shards that are read together: 512 KiB
RESAMPLED_BLOCK = 1 << 12  # the same for resampled shards: smaller blocks make epochs more random
ARRAY_BLOCK = 1 << 8  # ids of a resampled array that an epoch uses together
POOL = 1 << 22  # approximate number of n-grams that a worker permutes together


class Blocks:
    """A text cut into blocks, which are read and arranged one by one.

    An n-gram belongs to the block of its target.

    Args:
        layout: arranges the ids of a block in places, which are n-grams or segments.
        size: ids of a block.
        fold_starts: see `NgramSource`.
        before: number of ids of the texts before this one.

    Attributes:
        places: int64, how many places each block has.
    """

    def __init__(
        self,
        ids: np.ndarray | ShardedIds,
        layout: Layout,
        size: int,
        fold_starts: np.ndarray | None = None,
        before: int = 0,
    ):
        self._ids = ids
        self._layout = layout
        self._size = size
        self._fold_starts = fold_starts
        self._before = before
        self.places = layout.count_places(self._count_ids())

    def _read(self, start: int, stop: int) -> np.ndarray:
        stop = min(stop, len(self._ids))
        if isinstance(self._ids, ShardedIds):
            return self._ids.read(start, stop)
        return self._ids[start:stop]

    def _count_ids(self) -> np.ndarray:
        """Count the ids of each block that the layout counts, int64."""
        read_size = self._size * max(1, BLOCK // self._size)
        sums = [np.zeros(0, np.int64)]
        for start in range(0, len(self._ids), read_size):
            is_counted = self._layout.find_counted(self._read(start, start + read_size))
            firsts = np.arange(0, len(is_counted), self._size)
            sums.append(np.add.reduceat(is_counted, firsts, dtype=np.int64))
        return np.concatenate(sums)

    def load(self, block: int) -> list[np.ndarray]:
        """Read a block: tokens and positions as its layout arranges them, int32.

        With `fold_starts` also the fold of each n-gram, int32.
        """
        start = block * self._size
        ids = self._read(start, start + self._size)
        arrays = [*self._layout.arrange(ids, self._read_context(start))]
        if self._fold_starts is not None:
            targets = self._before + start + np.flatnonzero(self._layout.find_counted(ids))
            folds = np.searchsorted(self._fold_starts, targets, side="right")
            arrays.append(folds.astype(np.int32))
        return arrays

    def _read_context(self, stop: int) -> np.ndarray:
        """Read the context of the n-gram at a place, int32 [n-1]."""
        order, boundary = self._layout.order, self._layout.boundary
        length = order - 1
        while True:
            ids = self._read(max(0, stop - length), stop)
            if length >= stop or np.count_nonzero(find_targets(ids, boundary)) >= order - 1:
                tokens, _ = arrange_ngrams(ids, order, boundary)
                return tokens[1 - order :]
            length *= 2


class Pools(abc.ABC):
    """The places of an epoch, n-grams or segments, in pools.

    Attributes:
        first: number of the first pool in the keys of permutations.
        places: number of places in an epoch, of all workers.
        sizes: int64, how many places of each pool are permuted together.
        own: int64, how many places of each pool this worker has.
        held: the arrays of `Blocks.load`, if each epoch has the same.
    """

    first: int
    places: int
    sizes: np.ndarray
    own: np.ndarray
    held: tuple[tf.Tensor, ...] = ()

    @abc.abstractmethod
    def load(self, epoch: tf.Tensor, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Read the arrays of a pool that are not held."""

    @abc.abstractmethod
    def find_own(self, index: tf.Tensor) -> tf.Tensor:
        """Return the places in a permuted pool at which this worker has its own."""


class MemoryPool(Pools):
    """A text in memory: one block and one pool.

    Worker w has the w-th N-th of each batch.
    """

    first = 0

    def __init__(
        self,
        ids: np.ndarray,
        layout: Layout,
        epochs: Epochs,
        local_batch: int,
        fold_starts: np.ndarray | None,
    ):
        tokens, positions, *folds = Blocks(ids, layout, max(1, len(ids)), fold_starts).load(0)
        self.places = len(positions)
        # consecutive positions need no look-up: the first is enough
        if self.places and positions[-1] - positions[0] == self.places - 1:
            positions = positions[0]
        self.held = tuple(map(tf.constant, (tokens, positions, *folds)))
        self.sizes = np.array([self.places])
        self._batch = local_batch
        self._worker, self._workers = epochs.part
        whole, rest = divmod(self.places, local_batch * self._workers)
        last = np.clip(rest - self._worker * local_batch, 0, local_batch)
        self.own = np.array([whole * local_batch + last])

    def load(self, epoch: tf.Tensor, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return ()

    def find_own(self, index: tf.Tensor) -> tf.Tensor:
        if self._workers == 1:
            return index
        batch = index // self._batch
        return index + (batch * (self._workers - 1) + self._worker) * self._batch


class BlockPools(Pools):
    """Shards or resampled texts: pools of blocks, which are read in each epoch.

    An epoch has of each text its share of the n-grams, once. The seed determines an order of the
    blocks of each text. An epoch has the next round(c N) n-grams in this order, with parts of the
    first and the last block, and shuffles these blocks. A pool has the next blocks of each text.
    Several workers divide the n-grams of each text in each pool. A worker reads its own blocks
    only. With a layout of segments, segments take the place of n-grams.
    """

    first = 1

    def __init__(
        self,
        ids: ShardedIds | Resampled,
        layout: Layout,
        epochs: Epochs,
        fold_starts: np.ndarray | None,
    ):
        self._epochs = epochs
        self._seed = fold_seed(epochs.seed)
        self._arrays = 2 if fold_starts is None else 3
        texts, shares = (ids.texts, ids.shares) if isinstance(ids, Resampled) else ([ids], [1.0])
        self._texts = []
        before = 0
        for text in texts:
            size = ARRAY_BLOCK if isinstance(text, np.ndarray) else RESAMPLED_BLOCK
            size = size if isinstance(ids, Resampled) else BLOCK
            self._texts.append(Blocks(text, layout, size, fold_starts, before))
            before += len(text)
        self._orders = [self._order_blocks(*numbered) for numbered in enumerate(self._texts)]
        sizes = [text.places.sum() for text in self._texts]
        self._counts = np.array(list(map(count_resampled, shares, sizes)))
        self.places = int(self._counts.sum())
        worker, workers = epochs.part
        number = -(-self.places // (POOL * workers))
        ends = np.arange(number + 1)[:, None] * self._counts // number  # [pools + 1, texts]
        bounds = ends[:-1] + divide_evenly(np.diff(ends, axis=0), workers)
        # places of this worker in an epoch of each text, [pools, texts]
        self._starts, self._stops = bounds[worker : worker + 2]
        self.own = self.sizes = (self._stops - self._starts).sum(axis=1)

    def _order_blocks(self, text: int, blocks: Blocks) -> np.ndarray:
        """Return rows of (block, 0, number of its places), in the order of their use."""
        order = np.flatnonzero(blocks.places)
        if self._epochs.shuffle:
            order = np.random.default_rng([self._seed, text]).permutation(order)
        return np.column_stack([order, np.zeros_like(order), blocks.places[order]])

    def _select_rows(self, epoch: int, pool: int, text: int) -> np.ndarray:
        """Return rows of (block, first place, place after the last) of a text in a pool."""
        cycle = self._orders[text]
        start = epoch * self._counts[text] % cycle[:, 2].sum()
        rows = slice_rows(np.concatenate([cycle, cycle]), start, start + self._counts[text])
        if self._epochs.shuffle:
            rows = np.random.default_rng([self._seed, text, epoch + 1]).permutation(rows)
        return slice_rows(rows, self._starts[pool, text], self._stops[pool, text])

    def load(self, epoch: tf.Tensor, pool: tf.Tensor) -> tuple[tf.Tensor, ...]:
        arrays = tf.numpy_function(self._load, [epoch, pool], [tf.int32] * self._arrays)
        return tuple(tf.ensure_shape(array, [None]) for array in arrays)

    def _load(self, epoch: np.int64, pool: np.int64) -> list[np.ndarray]:
        """Join the parts of blocks that a pool has of each text."""
        parts = [[np.zeros(0, np.int32)] * self._arrays]
        size = 0
        for number, text in enumerate(self._texts):
            rows = self._select_rows(int(epoch), int(pool), number)
            for block, start, stop in rows.tolist():
                tokens, *of_places = text.load(block)
                positions, *folds = (array[start:stop] for array in of_places)
                parts.append([tokens, (positions + size).astype(np.int32), *folds])
                size += len(tokens)
        return list(map(np.concatenate, zip(*parts, strict=True)))

    def find_own(self, index: tf.Tensor) -> tf.Tensor:
        return index


def open_pools(
    ids: TextIds,
    layout: Layout,
    epochs: Epochs,
    local_batch: int,
    fold_starts: np.ndarray | None,
) -> Pools:
    """Open the pools of a text; `local_batch` is the number of places of this worker in a batch."""
    if isinstance(ids, np.ndarray):
        return MemoryPool(ids, layout, epochs, local_batch, fold_starts)
    return BlockPools(ids, layout, epochs, fold_starts)


def divide_evenly(sizes: np.ndarray, workers: int) -> np.ndarray:
    """Divide runs of n-grams among workers, so that their totals differ by at most one.

    `sizes` are the lengths of the runs. Of each run a worker has as many n-grams as if all were
    dealt out in turn. Returns int [N + 1, ...]: worker w has the n-grams from row w to row w + 1 of
    each run.
    """
    ends = np.cumsum(sizes).reshape(sizes.shape)
    later = workers - 1 - np.arange(workers).reshape(-1, *[1] * sizes.ndim)
    numbers = (ends + later) // workers - (ends - sizes + later) // workers
    return np.cumsum(np.concatenate([np.zeros_like(numbers[:1]), numbers]), axis=0)


def slice_rows(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Slice n-grams, which are rows of (block, first, after the last), by places."""
    block, first, after = rows.T
    begins = np.cumsum(after - first) - (after - first)
    sliced = np.column_stack(
        [block, np.maximum(first, first + start - begins), np.minimum(after, first + stop - begins)]
    )
    return sliced[sliced[:, 1] < sliced[:, 2]]
