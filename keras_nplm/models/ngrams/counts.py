"""n-gram counts of a text, as sorted tables: the input of every count-based model."""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID, check_ids, convert_ids
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.io.errors import check_integer
from keras_nplm.models.ngrams.columns import TemporaryColumns
from keras_nplm.models.ngrams.runs import choose_run_size, make_rows, sort_by_context
from keras_nplm.models.ngrams.tables import ContextTrie, sort_with_places, take


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """n-gram counts of orders 1 to n; the n-grams of an order are sorted by key, context number *
    |V| + last word.

    An n-gram has no `<pad>`, and `<s>` only as its first word. A token with fewer than k-1 words
    before it ends no n-gram of order k.

    Attributes, lists with an entry for each order k = 1 … n:
        keys: int64 [N_k]. The keys of order 1 are word ids.
        counts: c(w_1 … w_k), how often each n-gram occurs.
    """

    contexts: ContextTrie
    keys: list[np.ndarray]
    counts: list[np.ndarray]

    def nodes(self, order: int) -> np.ndarray:
        """The context number of each n-gram of an order; 0 for unigrams."""
        return self.keys[order - 1] // self.contexts.vocabulary_size


def count_ngrams(
    ids: np.ndarray, vocabulary_size: int, order: int, boundary: str = "sentence"
) -> NgramCounts:
    """Count the n-grams of orders 1 to n of a text: tokens are sorted by context, without a loop
    over n-grams.

    >>> counts = count_ngrams(np.array([4, 5, 4, 5, 6, 3]), vocabulary_size=7, order=2)
    >>> counts.keys[0].tolist(), counts.counts[0].tolist()  # words, and how often each occurs
    ([3, 4, 5, 6], [1, 2, 2, 1])
    """
    with TemporaryColumns() as columns:
        blocks = read_text(ids, vocabulary_size, order, boundary)
        counter = NgramCounter(vocabulary_size, order, columns, are_distinct=False)
        counter.count(blocks, choose_run_size(order))
        return NgramCounts(
            ContextTrie(
                counter.vocabulary_size, [column.read_all() for column in counter.contexts]
            ),
            [column.read_all() for column in counter.keys],
            [column.read_all() for column in counter.counts],
        )


def read_text(
    ids: np.ndarray, vocabulary_size: int, order: int, boundary: str
) -> Iterable[np.ndarray]:
    """Check a text in memory, and return its rows in blocks; see `make_rows`."""
    check_integer("order", order, 1)
    ids = convert_ids(ids)
    check_ids(ids, vocabulary_size)
    return map(make_rows, ngram_blocks([ids], order, boundary, choose_run_size(order)))


class NgramCounter:
    """Counts of the n-grams of orders 1 to n, in columns that may be larger than memory.

    The rows of all tokens are sorted by context, and counted in blocks. Each order is counted from
    the n-grams of the order above without their oldest words, and from the tokens that have no
    longer n-gram. In a block, the n-grams of the last context stay open for the next block.

    Args:
        are_distinct: whether an n-gram of the order above counts once, as in Kneser-Ney: the count
            is N1+(• w_1 … w_k), how many different words occur before the n-gram, at least 1. An
            n-gram of order n, or that begins with `<s>`, has no such words: its count is how often
            it occurs, as that of every n-gram without `are_distinct`.

    Attributes: columns for each length of contexts from 2, and for each order. See `NgramCounts`
        and `ContextTrie`.
    """

    def __init__(
        self, vocabulary_size: int, order: int, columns: TemporaryColumns, are_distinct: bool
    ):
        # products of a NumPy integer of 32 bits would overflow, and it has no `bit_length`
        self.vocabulary_size = int(vocabulary_size)
        self.order = order
        self.contexts = [columns.add(np.int64) for _ in range(2, order)]
        self.keys = [columns.add(np.int64) for _ in range(order)]
        self.counts = [columns.add(np.int64) for _ in range(order)]
        self._columns = columns
        self._are_distinct = are_distinct
        self._last_words = np.full(order, -1, np.int32)
        nothing = np.zeros(0, np.int64)
        # keys and sums of the context whose n-grams may continue, for each order
        self._open = [(nothing, nothing)] * order

    def count(
        self,
        blocks: Iterable[np.ndarray],
        size: int,
        update: Callable[[int], object] = lambda number: None,
    ) -> None:
        """Count the rows of blocks of at most `size`; see `make_rows`."""
        for rows, is_last in sort_by_context(
            blocks, self.vocabulary_size, self.order, self._columns, size
        ):
            self._count_rows(rows, is_last)
            update(len(rows))

    def _count_rows(self, rows: np.ndarray, is_last: bool) -> None:
        words = np.ascontiguousarray(rows["words"].T)
        nodes = self._number_contexts(words)
        lengths = np.count_nonzero(words[:-1] != PAD_ID, axis=0)
        keys = sums = np.zeros(0, np.int64)
        for k in range(self.order, 0, -1):
            [ends] = (lengths == k - 1).nonzero()  # tokens without a longer n-gram
            if k < self.order:
                keys = self._remove_oldest(k, keys)
                if self._are_distinct:
                    sums = np.ones(len(keys), np.int64)
            counts = rows["count"][ends]
            if self._are_distinct and k < self.order:
                oldest = words[k - 2]  # of the n-gram; at order 1 that is its only word
                counts = np.where(oldest[ends] == BOS_ID, counts, 0)
            open_keys, open_sums = self._open[k - 1]
            keys = np.concatenate(
                [open_keys, keys, nodes[k - 1][ends] * self.vocabulary_size + words[-1][ends]]
            )
            keys, sums = _sum_by_key(keys, np.concatenate([open_sums, sums, counts]))
            end = len(keys)
            if not is_last and lengths[-1] >= k - 1:
                end = int(keys.searchsorted(nodes[k - 1][-1] * self.vocabulary_size))
            self._open[k - 1] = keys[end:], sums[end:]
            keys = keys[:end]
            sums = np.maximum(sums[:end], 1)
            self.keys[k - 1].append(keys)
            self.counts[k - 1].append(sums)

    def _number_contexts(self, words: np.ndarray) -> list[np.ndarray]:
        """Append new contexts, and return the number of each row's context of 0, 1, … n-1 words."""
        size = words.shape[1]
        nodes = [np.zeros(size, np.int64)]
        is_new = np.zeros(size, bool)  # another context than that of the row before
        for i, column in enumerate(words[:-1]):
            is_new[1:] |= column[1:] != column[:-1]
            is_new[0] |= column[0] != self._last_words[i]
            if i == 0:
                nodes.append(column.astype(np.int64))
                continue
            is_first = is_new & (column != PAD_ID)
            known = len(self.contexts[i - 1])
            parents = nodes[-1][is_first]
            self.contexts[i - 1].append(parents * self.vocabulary_size + column[is_first])
            nodes.append(known - 1 + np.cumsum(is_first))
        self._last_words = words[:, -1].copy()
        return nodes

    def _remove_oldest(self, order: int, keys: np.ndarray) -> np.ndarray:
        """Return the keys of the n-grams of an order, from those of the order above."""
        nodes, words = np.divmod(keys, self.vocabulary_size)
        if order == 1 or not len(keys):
            return words
        return self.find_parents(order, nodes) * self.vocabulary_size + words

    def find_parents(self, length: int, nodes: np.ndarray) -> np.ndarray:
        """Return the numbers of contexts without their oldest word, for sorted numbers of contexts
        of a length from 2.
        """
        first = int(nodes[0])
        contexts = self.contexts[length - 2].read(first, int(nodes[-1]) + 1 - first)
        return take(contexts // self.vocabulary_size, nodes - first)


def _sum_by_key(keys: np.ndarray, amounts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys, sorted, and the sum of the amounts of each."""
    keys, places = sort_with_places(keys)
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    [starts] = is_first.nonzero()
    return take(keys, starts), np.add.reduceat(take(amounts, places), starts)
