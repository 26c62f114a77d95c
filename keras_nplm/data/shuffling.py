"""The n-grams of a corpus too big for memory: blocks of its text in a shuffled order, several in memory at a time."""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from keras_nplm.data.corpora.text_files import check_share
from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.vocabulary import EOS_ID
from keras_nplm.io.errors import InputError


def count_resampled(share: float, number: int) -> int:
    """How many of the n-grams of a text an epoch shows: c N, rounded.

    Args:
        share: c in (0, 1].
        number: N, of the n-grams in the text.

    Raises:
        InputError: it would be none.

    Example:

    >>> count_resampled(0.1, 1234)
    123
    """
    drawn = round(float(share) * int(number))
    if not drawn:
        raise InputError(f"A share of {share} of {number} n-grams is none: give a larger share, or leave the text out.")
    return drawn


class Resampled:
    """Texts to train on together, with the share of each that an epoch shows.

    An epoch shows round(c_k N_k) of the N_k n-grams of text k, and shuffles those of all texts together: for
    `ngram_dataset`. So a small text of the kind that is wanted is seen whole (c = 1) in each epoch, and a large one of
    another kind only in part, another part in each.

    Those parts follow one another along a random order of the text that the seed decides, and begin anew at its end:
    place i of epoch e is place (e round(c N) + i) mod N of that order. So within an epoch no n-gram comes twice, and
    none comes again before all others came: ten epochs at 0.1 show each once. Of arrays it is an order of the
    n-grams; of shards, of blocks of 2**12 ids, whose n-grams stay together, so that little more is read than is shown.

    Each text begins without words before it. Counts weigh alike: how often a word is met is its counts' sum weighted
    by the shares.

    Args:
        texts: (ids, share) for each: ids as `ngram_dataset` takes them, an array or shards, and c in (0, 1].

    Raises:
        InputError: there is no text, or a share is out of range.

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
            raise InputError("There is no text to resample: give one at least.")
        self.texts = [text if isinstance(text, ShardedIds) else np.asarray(text, np.int32) for text, _ in texts]
        self.shares = [check_share(share) for _, share in texts]

    @property
    def in_memory(self) -> bool:
        """Whether all texts are arrays."""
        return not any(isinstance(text, ShardedIds) for text in self.texts)


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


def concatenate_texts(
    laid_out: Iterable[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Several texts that `ngram_positions` laid out, as one: tokens int32, and of each the positions int32 in them.

    Example:

    >>> parts = [(np.array([0, 7, 8]), np.array([1, 2])), (np.array([0, 9]), np.array([1]))]
    >>> tokens, positions = concatenate_texts(parts)
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
        return find_pool(np.add.reduceat(in_order, np.arange(0, len(in_order), self._pool)), ngrams)

    def load(self, epoch: int, pool: int) -> tuple[np.ndarray, np.ndarray]:
        """A pool of an epoch, laid out as `ngram_positions` does: tokens int32, and positions int32 in its n-grams.

        Raises:
            InputError: a shard cannot be read.
        """
        blocks = self._order_of(epoch)[pool * self._pool : (pool + 1) * self._pool]
        return together(self._blocks.lay_out(int(block)) for block in blocks if self._blocks.ngrams[block])


def together(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks that were laid out, as one text."""
    tokens, positions = concatenate_texts(blocks)
    return tokens, np.concatenate([np.zeros(0, np.int32), *positions])


def find_pool(sizes: np.ndarray, ngrams: int) -> tuple[int, int]:
    """The pool that comes after so many n-grams, and how many of its own are among them."""
    ends = np.cumsum(sizes)
    pool = int(np.searchsorted(ends, ngrams, side="right"))
    return pool, int(ngrams - (ends[pool - 1] if pool else 0))


RESAMPLED_BLOCK = 1 << 12  # ids that are read together, 16 KiB: the fewer, the more at random is what an epoch shows
RESAMPLED_POOL = 1 << 22  # n-grams that are permuted together, about


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
        self._texts = [Blocks(text, order, boundary, RESAMPLED_BLOCK, targets_below) for text in held]
        self._cycles = [self._cycle(number, text.ngrams) for number, text in enumerate(self._texts)]
        sizes = (text.ngrams.sum() for text in self._texts)
        self._drawn = [count_resampled(share, size) for share, size in zip(resampled.shares, sizes, strict=True)]
        self.number = sum(self._drawn)
        self.count = -(-self.number // RESAMPLED_POOL)

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
        return find_pool(sum(np.diff(self._ends(text)) for text in range(len(self._texts))), ngrams)

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
