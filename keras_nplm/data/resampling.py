"""Resampling: train on an in-domain text plus a share of large out-of-domain texts, a different part each epoch."""

import itertools
from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np

from keras_nplm.data.arguments import convert_ids
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.shuffling import Blocks, find_pool, load_rows, merge_blocks, slice_rows
from keras_nplm.io.errors import InputError

RESAMPLED_BLOCK = 1 << 12  # ids of shards that are read together, 16 KiB
ARRAY_BLOCK = 1 << 8  # ids of an array that an epoch uses together: smaller blocks make epochs more random
RESAMPLED_POOL = 1 << 22  # approximate number of n-grams that are permuted together


def is_share(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < value <= 1


def check_share(value: float) -> float:
    """Check a share for resampling and return it as a float."""
    if not is_share(value):
        raise InputError(f"The share of a text in an epoch must be a number in (0, 1]. Received: {value}.")
    return float(value)


def count_resampled(share: float, number: int) -> int:
    """Count the n-grams of a text in one epoch: round(c N)."""
    count = round(float(share) * int(number))
    if not count:
        raise InputError(
            f"A share of {share} of {number} n-grams must be at least one n-gram. Fix: give a larger share, or omit "
            "the text."
        )
    return count


class Resampled:
    """Training texts with the share of each in an epoch, for `ngram_dataset`.

    An epoch has round(c_k N_k) of the N_k n-grams of text k. The n-grams of all texts are shuffled together. So a small
    in-domain text (c = 1) is whole in each epoch. Of a large out-of-domain text each epoch has a different part.

    The seed determines a random order of each text. Place i of epoch e is place (e round(c N) + i) mod N of this order.
    So within an epoch no n-gram repeats, and none repeats before all others were used: ten epochs at c = 0.1 use each
    n-gram once. The order is one of blocks: of 2**8 ids of an array, of 2**12 ids of shards, so that little more is
    read than is used.

    Each text begins without a context. Unigram frequencies are weighted by the shares.

    Args:
        texts: (ids, share) of each text: ids as `ngram_dataset` takes them, an array or shards, and c in (0, 1].

    Raises:
        InputError: `texts` is empty, or a share is out of range.

    Example:

    >>> from keras_nplm import ngram_dataset
    >>> news, novels = np.arange(4, 10, dtype=np.int32), np.arange(10, 30, dtype=np.int32)
    >>> dataset = ngram_dataset(Resampled([(news, 1.0), (novels, 0.1)]), order=3, batch_size=8)
    >>> first, second = ([sorted(target.tolist()) for _, target in dataset.as_numpy_iterator()] for epoch in range(2))
    >>> first[0][:6], second[0][:6]  # the news
    ([4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 9])
    >>> len(first[0]), len(set(first[0] + second[0]))  # with 2 of the 20 words of the novels, then 2 others
    (8, 10)

    Reference: Schwenk (2013), CSLM - a modular open-source continuous space language modeling toolkit, Interspeech;
    Schwenk (2007), Continuous space language models, Computer Speech & Language 21.
    """

    def __init__(self, texts: Sequence[tuple[np.ndarray | ShardedIds, float]]):
        texts = list(texts)
        if not texts:
            raise InputError("`texts` must have at least one (ids, share). Received: [].")
        self.texts = [text if isinstance(text, ShardedIds) else convert_ids(text) for text, _ in texts]
        self.shares = [check_share(share) for _, share in texts]

    @property
    def in_memory(self) -> bool:
        return not any(isinstance(text, ShardedIds) for text in self.texts)


class ResampledPools:
    """The n-grams of an epoch of `Resampled` texts, in pools that have the same share of each text; see `Pools`.

    The seed determines an order of the blocks of each text. An epoch has the next round(c N) n-grams in this order,
    with parts of the first and the last block, and shuffles these blocks. A pool has the next blocks of each text.
    Several workers divide the n-grams of each text in each pool: a worker reads the blocks of its own share only.
    """

    def __init__(
        self,
        resampled: Resampled,
        order: int,
        boundary: str,
        *,
        seed: int = 0,
        targets_below: int | None = None,
        part: tuple[int, int] = (0, 1),
    ):
        self._seed = seed
        self._texts = []
        for text in resampled.texts:
            is_array = isinstance(text, np.ndarray)
            ids, size = (_ArrayIds(text), ARRAY_BLOCK) if is_array else (text, RESAMPLED_BLOCK)
            self._texts.append(Blocks(ids, order, boundary, size, targets_below))
        self._cycles = [self._order_blocks(number, text.ngrams) for number, text in enumerate(self._texts)]
        sizes = (text.ngrams.sum() for text in self._texts)
        self._counts = [count_resampled(share, size) for share, size in zip(resampled.shares, sizes, strict=True)]
        self.number = sum(self._counts)
        self.count = -(-self.number // RESAMPLED_POOL)
        ends = np.arange(self.count + 1)[:, None] * np.array(self._counts) // self.count  # [pools + 1, texts]
        shares = divide_evenly(np.diff(ends, axis=0), part[1]) + ends[:-1]
        self._starts, self._stops = shares[part[0]], shares[part[0] + 1]  # of this worker, [pools, texts]

    def _order_blocks(self, text: int, ngrams: np.ndarray) -> np.ndarray:
        """Return rows of (block, 0, number of its n-grams) in the order in which epochs use the text."""
        order = np.random.default_rng([self._seed, text]).permutation(np.flatnonzero(ngrams))
        return np.column_stack([order, np.zeros_like(order), ngrams[order]])

    def _select_blocks(self, text: int, epoch: int) -> np.ndarray:
        """Return rows of (block, first n-gram, n-gram after the last) that an epoch uses, in its order."""
        cycle, count = self._cycles[text], self._counts[text]
        size = int(self._texts[text].ngrams.sum())
        start = int(epoch) * count % size
        rows = [slice_rows(cycle, start, start + count), slice_rows(cycle, 0, start + count - size)]
        return np.random.default_rng([self._seed, text, int(epoch) + 1]).permutation(np.concatenate(rows))

    def place(self, epoch: int, ngrams: int) -> tuple[int, int]:
        """Find the place after the first `ngrams` n-grams of an epoch: a pool, and how many of its n-grams to skip."""
        del epoch  # all epochs have pools of the same sizes
        return find_pool((self._stops - self._starts).sum(axis=1), ngrams)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """Read a pool of an epoch: tokens int32 and positions int32. Only blocks with n-grams of the pool are read."""
        texts = range(len(self._texts))
        return merge_blocks(itertools.chain.from_iterable(self._load_text(text, epoch, pool) for text in texts))

    def _load_text(self, text: int, epoch: int, pool: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
        start, stop = self._starts[pool, text], self._stops[pool, text]
        return load_rows(self._texts[text], slice_rows(self._select_blocks(text, epoch), start, stop))


def divide_evenly(sizes: np.ndarray, workers: int) -> np.ndarray:
    """Divide runs of n-grams, of the lengths `sizes`, so that the totals of two workers differ by at most one.

    Returns int [N + 1, ...]: worker w has the n-grams from row w to row w + 1 of each run.
    """
    rest = (sizes % workers).reshape(-1)
    turn = (np.cumsum(rest) - rest) % workers  # the worker that has the next n-gram which does not divide
    extra = (np.arange(workers)[:, None] - turn) % workers < rest
    more = np.concatenate([np.zeros((1, len(rest)), np.int64), np.cumsum(extra, axis=0)]).reshape(-1, *sizes.shape)
    return np.arange(workers + 1).reshape(-1, *[1] * sizes.ndim) * (sizes // workers) + more


class _ArrayIds:
    """Ids in memory with the interface of `ShardedIds`."""

    def __init__(self, ids: np.ndarray):
        self._ids = ids

    def __len__(self) -> int:
        return len(self._ids)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._ids[start:stop]

    def parts(self, size: int) -> Iterable[np.ndarray]:
        return (self._ids[start : start + size] for start in range(0, len(self._ids), size))
