"""The n-grams of a corpus too big for memory: blocks of its text in a shuffled order, several in memory at a time."""

from collections.abc import Iterable

import numpy as np

from keras_nplm.errors import InputError
from keras_nplm.layout import ngram_positions
from keras_nplm.shards import ShardedIds
from keras_nplm.vocabulary import EOS_ID

BLOCK = 1 << 17  # ids that are read together: 512 KiB
POOL = 32  # blocks whose n-grams are permuted together


class Blocks:
    """A text cut into blocks of ids, which are read one by one.

    An n-gram belongs to the block in which its target stands; its context may reach into the blocks before.

    Args:
        ids: each sentence closed by `</s>`.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        size: of a block, in ids.
        targets_below: leave out the n-grams whose target is this id or one above. Default: none.

    Attributes:
        ngrams: how many each block has, int64.

    Raises:
        InputError: an option is out of range, the text is empty, or a shard cannot be read.
    """

    def __init__(self, ids: ShardedIds, order: int, boundary: str, size: int, targets_below: int | None = None):
        ngram_positions(np.array([EOS_ID + 1, EOS_ID]), order, boundary)  # for what it has against the options
        self._ids, self._order, self._boundary, self._size = ids, order, boundary, size
        self._targets_below = targets_below
        starts = np.arange(0, len(ids), size)
        if boundary == "sentence" and targets_below is None:  # every id is a target
            self.ngrams = np.minimum(starts + size, len(ids)) - starts
        else:
            together = size * max(1, BLOCK // size)
            parts = ((self._are_targets(part), np.arange(0, len(part), size)) for part in ids.parts(together))
            sums = [np.add.reduceat(targets, firsts, dtype=np.int64) for targets, firsts in parts]
            self.ngrams = np.concatenate([np.zeros(0, np.int64), *sums])
        if not self.ngrams.sum():
            raise InputError("There is no word to predict: give some text.")

    def _are_targets(self, ids: np.ndarray) -> np.ndarray:
        """Which of some ids are the target of an n-gram."""
        targets = ids != EOS_ID if self._boundary == "stream" else np.ones(len(ids), bool)
        return targets if self._targets_below is None else targets & (ids < self._targets_below)

    def lay_out(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """A block as `ngram_positions` lays it out, its first contexts filled from what stands before it in the text.

        Raises:
            InputError: a shard cannot be read.
        """
        start = block * self._size
        ids = self._ids.read(start, min(start + self._size, len(self._ids)))
        tokens, positions = ngram_positions(ids, self._order, self._boundary, self._targets_below)
        context = self._context(start)
        tokens[self._order - 1 - len(context) : self._order - 1] = context
        return tokens, positions

    def _context(self, stop: int) -> np.ndarray:
        """The n-1 words before a place, or as many as there are in the text, or in the sentence."""
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


def joined(
    laid_out: Iterable[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Several texts that `ngram_positions` laid out, as one: tokens int32, and of each the positions int32 in them.

    Example:

    >>> tokens, positions = joined([(np.array([0, 7, 8]), np.array([1, 2])), (np.array([0, 9]), np.array([1]))])
    >>> tokens.tolist(), [part.tolist() for part in positions]
    ([0, 7, 8, 0, 9], [[1, 2], [4]])
    """
    tokens, positions, size = [np.zeros(0, np.int32)], [], 0
    for some_tokens, some_positions in laid_out:
        tokens.append(some_tokens)
        positions.append((some_positions + size).astype(np.int32))
        size += len(some_tokens)
    return np.concatenate(tokens, dtype=np.int32), positions


class Pools:
    """The n-grams of shards in pools: each n-gram in one pool of each epoch.

    An epoch takes the blocks of the text in an order of its own, and a pool is the next few of them.

    Args:
        ids: each sentence closed by `</s>`.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        shuffle: give each epoch its own order of blocks; else that of the text.
        seed: of the orders.
        targets_below: as `Blocks` has it.

    Attributes:
        number: of n-grams.
        count: of pools in an epoch.

    Raises:
        InputError: as `Blocks`.
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
    ):
        self._blocks = Blocks(ids, order, boundary, BLOCK, targets_below)
        self._shuffle, self._seed, self._pool = shuffle, seed, POOL
        self.number = int(self._blocks.ngrams.sum())
        self.count = -(-len(self._blocks.ngrams) // self._pool)

    def _order_of(self, epoch: int) -> np.ndarray:
        """The blocks in the order of an epoch."""
        if not self._shuffle:
            return np.arange(len(self._blocks.ngrams))
        return np.random.default_rng([self._seed % (1 << 64), epoch]).permutation(len(self._blocks.ngrams))

    def place(self, epoch: int, ngrams: int) -> tuple[int, int]:
        """The pool of an epoch that comes after so many n-grams, and how many of its own are among them."""
        in_order = self._blocks.ngrams[self._order_of(epoch)]
        return pool_at(np.add.reduceat(in_order, np.arange(0, len(in_order), self._pool)), ngrams)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """A pool of an epoch, laid out as `ngram_positions` does: tokens int32, and positions int32 in its n-grams.

        Raises:
            InputError: a shard cannot be read.
        """
        blocks = self._order_of(epoch)[pool * self._pool : (pool + 1) * self._pool]
        return together(self._blocks.lay_out(int(block)) for block in blocks if self._blocks.ngrams[block])


def together(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that were laid out, as one text."""
    tokens, positions = joined(blocks)
    return tokens, np.concatenate([np.zeros(0, np.int32), *positions])


def pool_at(sizes: np.ndarray, ngrams: int) -> tuple[int, int]:
    """The pool that comes after so many n-grams, and how many of its own are among them."""
    ends = np.cumsum(sizes)
    pool = int(np.searchsorted(ends, ngrams, side="right"))
    return pool, int(ngrams - (ends[pool - 1] if pool else 0))
