"""The n-grams of a corpus too big for memory: blocks of its text in a shuffled order, several in memory at a time."""

import numpy as np

from keras_nplm.errors import InputError
from keras_nplm.layout import ngram_positions
from keras_nplm.shards import ShardedIds
from keras_nplm.vocabulary import EOS_ID

BLOCK = 1 << 17  # ids that are read together: 512 KiB
POOL = 32  # blocks whose n-grams are permuted together


class Pools:
    """The n-grams of shards in pools: each n-gram in one pool of each epoch.

    An n-gram belongs to the block of ids in which its target stands; its context may reach into the blocks before. An
    epoch takes the blocks in an order of its own, and a pool is the next few of them.

    Args:
        ids: each sentence closed by `</s>`.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        shuffle: give each epoch its own order of blocks; else that of the text.
        seed: of the orders.
        targets_below: leave out the n-grams whose target is this id or one above. Default: none.

    Attributes:
        number: of n-grams.
        count: of pools in an epoch.

    Raises:
        InputError: an option is out of range, the text is empty, or a shard cannot be read.
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
        ngram_positions(np.array([EOS_ID + 1, EOS_ID]), order, boundary)  # for what it has against the options
        self._ids, self._order, self._boundary = ids, order, boundary
        self._shuffle, self._seed, self._block, self._pool = shuffle, seed, BLOCK, POOL
        self._targets_below = targets_below
        if boundary == "sentence" and targets_below is None:  # every id is a target
            starts = np.arange(0, len(ids), self._block)
            self._ngrams = np.minimum(starts + self._block, len(ids)) - starts
        else:
            self._ngrams = np.array([self._targets(part) for part in ids.parts(self._block)], np.int64)
        self.number = int(self._ngrams.sum())
        self.count = -(-len(self._ngrams) // self._pool)
        if not self.number:
            raise InputError("There is no word to predict: give some text.")

    def _targets(self, ids: np.ndarray) -> int:
        """How many of some ids are the target of an n-gram."""
        chosen = ids != EOS_ID if self._boundary == "stream" else np.ones(len(ids), bool)
        return int(np.count_nonzero(chosen if self._targets_below is None else chosen & (ids < self._targets_below)))

    def _order_of(self, epoch: int) -> np.ndarray:
        """The blocks in the order of an epoch."""
        if not self._shuffle:
            return np.arange(len(self._ngrams))
        return np.random.default_rng([self._seed % (1 << 64), epoch]).permutation(len(self._ngrams))

    def place(self, epoch: int, ngrams: int) -> tuple[int, int]:
        """The pool of an epoch that comes after so many n-grams, and how many of its own are among them."""
        in_order = self._ngrams[self._order_of(epoch)]
        ends = np.add.reduceat(in_order, np.arange(0, len(in_order), self._pool)).cumsum()
        pool = int(np.searchsorted(ends, ngrams, side="right"))
        return pool, int(ngrams - (ends[pool - 1] if pool else 0))

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """A pool of an epoch, laid out as `ngram_positions` does: tokens int32, and positions int32 in its n-grams.

        Raises:
            InputError: a shard cannot be read.
        """
        blocks = self._order_of(epoch)[pool * self._pool : (pool + 1) * self._pool]
        laid_out = [self._lay_out(int(block)) for block in blocks if self._ngrams[block]]
        tokens, positions = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        size = 0
        for block_tokens, block_positions in laid_out:
            tokens.append(block_tokens)
            positions.append(block_positions + np.int32(size))
            size += len(block_tokens)
        return np.concatenate(tokens), np.concatenate(positions)

    def _lay_out(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """A block, its first contexts filled from what stands before it in the text."""
        start = block * self._block
        ids = self._ids.read(start, min(start + self._block, len(self._ids)))
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
