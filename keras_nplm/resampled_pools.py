"""What epochs show of texts too big for memory, where that is a share of each: which blocks are read, and when."""

import itertools
from collections.abc import Iterable

import numpy as np

from keras_nplm.pools import Blocks, pool_at, together
from keras_nplm.resampling import Resampled, drawn_number
from keras_nplm.shards import ShardedIds

BLOCK = 1 << 12  # ids that are read together, 16 KiB: the fewer, the more at random is what an epoch shows
POOL = 1 << 22  # n-grams that are permuted together, about


class ResampledPools:
    """The n-grams that epochs show of several texts, in pools that have of each text the same share.

    Each text has its blocks in an order that the seed decides. An epoch takes the next round(c N) n-grams along it,
    the first and the last block in part, and shuffles these blocks; a pool has the next of each text's.

    Args:
        resampled: the texts, one of them in shards at least, and their shares.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        seed: of the orders.
        targets_below: as `Blocks` has it.

    Attributes:
        number: of n-grams in an epoch.
        count: of pools in an epoch.

    Raises:
        InputError: as `Blocks`, or of a text an epoch would show nothing.
    """

    def __init__(
        self, resampled: Resampled, order: int, boundary: str, *, seed: int = 0, targets_below: int | None = None
    ):
        self._seed = seed % (1 << 64)
        held = [text if isinstance(text, ShardedIds) else _Held(text) for text in resampled.texts]
        self._texts = [Blocks(text, order, boundary, BLOCK, targets_below) for text in held]
        self._cycles = [self._cycle(number, text.ngrams) for number, text in enumerate(self._texts)]
        sizes = (text.ngrams.sum() for text in self._texts)
        self._drawn = [drawn_number(share, size) for share, size in zip(resampled.shares, sizes, strict=True)]
        self.number = sum(self._drawn)
        self.count = -(-self.number // POOL)

    def _cycle(self, text: int, ngrams: np.ndarray) -> np.ndarray:
        """Rows of block, 0 and its number of n-grams, in the order in which epochs go through the text."""
        order = np.random.default_rng([self._seed, text]).permutation(np.flatnonzero(ngrams))
        return np.column_stack([order, np.zeros_like(order), ngrams[order]])

    def _shown(self, text: int, epoch: int) -> np.ndarray:
        """Rows of block, the first n-gram that an epoch shows of it and the one after the last, in its order."""
        cycle, drawn = self._cycles[text], self._drawn[text]
        size = int(self._texts[text].ngrams.sum())
        start = int(epoch) * drawn % size
        rows = [_between(cycle, start, start + drawn), _between(cycle, 0, start + drawn - size)]
        return np.random.default_rng([self._seed, text, int(epoch) + 1]).permutation(np.concatenate(rows))

    def _ends(self, text: int) -> np.ndarray:
        """The places among the n-grams that an epoch shows of a text where pools begin and end."""
        return np.arange(self.count + 1) * self._drawn[text] // self.count

    def place(self, epoch: int, ngrams: int) -> tuple[int, int]:
        """The pool of an epoch that comes after so many n-grams, and how many of its own are among them."""
        del epoch  # all are cut alike
        return pool_at(sum(np.diff(self._ends(text)) for text in range(len(self._texts))), ngrams)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """A pool of an epoch, as `Pools.load` has it; no block is read of which it shows nothing.

        Raises:
            InputError: a shard cannot be read.
        """
        return together(
            itertools.chain.from_iterable(self._laid_out(text, epoch, pool) for text in range(len(self._texts)))
        )

    def _laid_out(self, text: int, epoch: int, pool: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        for block, first, stop in _between(self._shown(text, epoch), *self._ends(text)[pool : pool + 2]).tolist():
            tokens, positions = self._texts[text].lay_out(block)
            yield tokens, positions[first:stop]


class _Held:
    """Ids in memory, read as shards are."""

    def __init__(self, ids: np.ndarray):
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._ids[start:stop]

    def parts(self, size: int) -> Iterable[np.ndarray]:
        return (self._ids[start : start + size] for start in range(0, len(self._ids), size))


def _between(rows: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Of n-grams in rows of (block, first, one after the last), those at places `start` to `stop`, as such rows."""
    sizes = rows[:, 2] - rows[:, 1]
    ends = np.cumsum(sizes)
    begins = ends - sizes
    inside = (begins < stop) & (ends > start)
    (block, first, _), begins, ends = rows[inside].T, begins[inside], ends[inside]
    return np.column_stack([block, first + np.maximum(start - begins, 0), first + np.minimum(stop, ends) - begins])
