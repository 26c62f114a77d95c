"""Shuffle the n-grams of shards or resampled texts: blocks in random order, several of them permuted together."""

import numpy as np

from keras_nplm.data.boundary import find_targets, has_documents, predicts_end
from keras_nplm.data.ngram_arrays import arrange_ngrams, ngram_positions
from keras_nplm.data.resampling import Resampled, count_resampled
from keras_nplm.data.segments import count_segments, segment_positions
from keras_nplm.data.shards import ShardedIds
from keras_nplm.io.errors import InputError

BLOCK = 1 << 17  # ids of shards that are read together: 512 KiB
RESAMPLED_BLOCK = 1 << 12  # the same for resampled shards: smaller blocks make epochs more random
ARRAY_BLOCK = 1 << 8  # ids of a resampled array that an epoch uses together
POOL = 1 << 22  # approximate number of n-grams that a worker permutes together


class Blocks:
    """A text cut into blocks of n-grams, or of segments, read one by one. They belong to the block of their target."""

    def __init__(
        self, ids: ShardedIds | np.ndarray, order: int, boundary: str, size: int, below: int | None, segment: int
    ):
        self._length, self._order, self._boundary, self._size = len(ids), order, boundary, size
        self._targets_below, self._segment = below, segment
        self._read = (lambda start, stop: ids[start:stop]) if isinstance(ids, np.ndarray) else ids.read
        starts = np.arange(0, len(ids), size)
        every_id = predicts_end(boundary) and (segment > 1 or not has_documents(boundary))
        if every_id and below is None:  # is a target, or has a place in a segment
            self.ngrams = np.minimum(starts + size, len(ids)) - starts
        else:
            read_size = size * max(1, BLOCK // size)
            parts = (self._read(start, min(start + read_size, len(ids))) for start in range(0, len(ids), read_size))
            parts = ((self._find_targets(part), np.arange(0, len(part), size)) for part in parts)
            sums = [np.add.reduceat(targets, firsts, dtype=np.int64) for targets, firsts in parts]
            self.ngrams = np.concatenate([np.zeros(0, np.int64), *sums])
        self.ngrams = count_segments(self.ngrams, segment)
        # of each block, how many n-grams of the text come before it
        self.before = np.cumsum(self.ngrams) - self.ngrams
        if not self.ngrams.sum():
            raise InputError("The text has no word to predict. Fix: add text.")

    def _find_targets(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it is the target of an n-gram, bool [T]."""
        targets = find_targets(ids, self._boundary)
        return targets if self._targets_below is None else targets & (ids < self._targets_below)

    def load(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a block: its n-grams as `ngram_positions` arranges them, with contexts from the text before."""
        start = block * self._size
        ids = self._read(start, min(start + self._size, self._length))
        if self._segment > 1:
            tokens, positions = segment_positions(ids, self._order, self._boundary, self._segment)
        else:
            tokens, positions = ngram_positions(ids, self._order, self._boundary, self._targets_below)
        context, first = self._read_context(start), self._order + self._segment - 2
        tokens[first - len(context) : first] = context if self._segment == 1 else ~context  # no targets
        return tokens, positions

    def _read_context(self, stop: int) -> np.ndarray:
        """Read the context of the n-gram at a place, int32 [n-1]."""
        size = length = self._order - 1
        while True:
            ids = self._read(max(0, stop - length), stop)
            if np.count_nonzero(find_targets(ids, self._boundary)) >= size or length >= stop:
                return arrange_ngrams(ids, self._order, self._boundary)[0][-size:]
            length *= 2


class Pools:
    """The n-grams of an epoch in pools, which are permuted one by one: of each text its share of the n-grams, once.

    The seed determines an order of the blocks of each text. An epoch has the next round(c N) n-grams in this order,
    with parts of the first and the last block, and shuffles these blocks. A pool has the next blocks of each text.
    Several workers divide the n-grams of each text in each pool: a worker reads the blocks of its own `part` only.
    `number` is the number of n-grams in an epoch of all workers, `count` its number of pools.
    """

    def __init__(
        self,
        ids: ShardedIds | Resampled,
        order: int,
        boundary: str,
        *,
        shuffle: bool = True,
        seed: int = 0,
        targets_below: int | None = None,
        part: tuple[int, int] = (0, 1),
        segment: int = 1,
    ):
        self._shuffle, self._seed, self._texts = shuffle, seed, []
        texts, shares = (ids.texts, ids.shares) if isinstance(ids, Resampled) else ([ids], [1.0])
        for text in texts:
            size = ARRAY_BLOCK if isinstance(text, np.ndarray) else BLOCK if ids is text else RESAMPLED_BLOCK
            self._texts.append(Blocks(text, order, boundary, size, targets_below, segment))
        self._cycles = [self._order_blocks(number, text.ngrams) for number, text in enumerate(self._texts)]
        sizes = (text.ngrams.sum() for text in self._texts)
        self._counts = [count_resampled(share, size) for share, size in zip(shares, sizes, strict=True)]
        self.number = sum(self._counts)
        self.count = -(-self.number // (POOL * part[1]))
        ends = np.arange(self.count + 1)[:, None] * np.array(self._counts) // self.count  # [pools + 1, texts]
        divided = divide_evenly(np.diff(ends, axis=0), part[1]) + ends[:-1]
        self._starts, self._stops = divided[part[0]], divided[part[0] + 1]  # of this worker, [pools, texts]

    def _order_blocks(self, text: int, ngrams: np.ndarray) -> np.ndarray:
        """Return rows of (block, 0, number of its n-grams) in the order in which epochs use the text."""
        order = np.flatnonzero(ngrams)
        order = np.random.default_rng([self._seed, text]).permutation(order) if self._shuffle else order
        return np.column_stack([order, np.zeros_like(order), ngrams[order]])

    def _select_blocks(self, text: int, epoch: int) -> np.ndarray:
        """Return rows of (block, first n-gram, n-gram after the last) that an epoch uses, in its order."""
        cycle, count = self._cycles[text], self._counts[text]
        size = int(self._texts[text].ngrams.sum())
        start = int(epoch) * count % size
        rows = np.concatenate([slice_rows(cycle, start, start + count), slice_rows(cycle, 0, start + count - size)])
        return np.random.default_rng([self._seed, text, int(epoch) + 1]).permutation(rows) if self._shuffle else rows

    def place(self, ngrams: int) -> tuple[int, int]:
        """Find the place after the first `ngrams` n-grams of an epoch: a pool, and how many of its n-grams to skip."""
        ends = np.cumsum((self._stops - self._starts).sum(axis=1))
        pool = int(np.searchsorted(ends, ngrams, side="right"))
        return pool, int(ngrams - (ends[pool - 1] if pool else 0))

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a pool of an epoch: tokens int32 and positions int32, as `ngram_positions` arranges them."""
        tokens, positions, size = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], 0
        for text, rows in zip(self._texts, self._select_rows(epoch, pool), strict=True):
            for block, first, stop in rows.tolist():
                block_tokens, block_positions = text.load(block)
                tokens.append(block_tokens)
                positions.append((block_positions[first:stop] + size).astype(np.int32))
                size += len(block_tokens)
        return np.concatenate(tokens, dtype=np.int32), np.concatenate(positions)

    def number_ngrams(self, epoch: int, pool: int) -> np.ndarray:
        """Number the n-grams of a pool, in the order of `load`, by their places in the joined texts, int32 [N]."""
        numbers = [np.zeros(0, np.int32)]
        before = 0
        for text, rows in zip(self._texts, self._select_rows(epoch, pool), strict=True):
            for block, first, stop in rows.tolist():
                start = before + text.before[block]
                numbers.append(np.arange(start + first, start + stop, dtype=np.int32))
            before += text.ngrams.sum()
        return np.concatenate(numbers)

    def _select_rows(self, epoch: int, pool: int) -> list[np.ndarray]:
        """Return, for each text, rows of (block, first n-gram, n-gram after the last) that a pool has."""
        bounds = zip(self._starts[pool], self._stops[pool], strict=True)
        return [slice_rows(self._select_blocks(text, epoch), *bound) for text, bound in enumerate(bounds)]


def divide_evenly(sizes: np.ndarray, workers: int) -> np.ndarray:
    """Divide runs of n-grams, of the lengths `sizes`, so that the totals of two workers differ by at most one.

    Returns int [N + 1, ...]: worker w has the n-grams from row w to row w + 1 of each run.
    """
    rest = (sizes % workers).reshape(-1)
    turn = (np.cumsum(rest) - rest) % workers  # the worker that has the next n-gram which does not divide
    extra = (np.arange(workers)[:, None] - turn) % workers < rest
    more = np.concatenate([np.zeros((1, len(rest)), np.int64), np.cumsum(extra, axis=0)]).reshape(-1, *sizes.shape)
    return np.arange(workers + 1).reshape(-1, *[1] * sizes.ndim) * (sizes // workers) + more


def slice_rows(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Slice n-grams that are given as rows of (block, first, after the last): those at places `start` to `stop`."""
    sizes = rows[:, 2] - rows[:, 1]
    ends = np.cumsum(sizes)
    begins = ends - sizes
    inside = (begins < stop) & (ends > start)
    (block, first, _), begins, ends = rows[inside].T, begins[inside], ends[inside]
    return np.column_stack([block, first + np.maximum(start - begins, 0), first + np.minimum(stop, ends) - begins])
