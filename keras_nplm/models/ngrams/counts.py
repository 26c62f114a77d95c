"""Sorted tables of the n-grams of a text: what every count-based model is estimated from and looks up in."""

import dataclasses
import itertools
import os
from collections.abc import Iterator

import numpy as np

from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.io.errors import InputError

_NO_COUNT = 1 << 40
_SORT_FROM = 1 << 12  # look-ups from which sorting them first pays: neighbours share the path of their search


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The place of each wanted key in the sorted `keys`, or -1: int64.

    Example:

    >>> find(np.array([2, 5, 9]), np.array([9, 3, 2]))
    array([ 2, -1,  0])
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    if len(wanted) >= _SORT_FROM:
        by_key = np.argsort(wanted)
        place = np.empty(len(wanted), np.int64)
        place[by_key] = np.searchsorted(keys, wanted[by_key])
    else:
        place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    return np.where(keys[place] == wanted, place, -1)


def check_tables(
    path: str | os.PathLike,
    vocabulary_size: int,
    contexts: list[np.ndarray],
    keys: list[np.ndarray],
    values: list[np.ndarray],
) -> None:
    """Refuse n-grams read from a file that are not sorted keys of listed contexts with a value each, in every order.

    Args:
        path: the file.
        vocabulary_size: |V|.
        contexts: for k = 2 … n-1 the keys of the contexts of k words.
        keys: for k = 2 … n the keys of the n-grams.
        values: of each of these.

    Raises:
        InputError: they are not.
    """
    check_contexts(path, vocabulary_size, contexts)
    sizes = [vocabulary_size, *map(len, contexts)]
    whole = len(keys) == len(sizes) and [key.shape for key in keys] == [value.shape for value in values]
    refuse_unless(path, whole and all(map(_is_table, keys, sizes, itertools.repeat(vocabulary_size))))


def check_contexts(path: str | os.PathLike, vocabulary_size: int, contexts: list[np.ndarray]) -> None:
    """Refuse contexts read from a file that are not sorted keys of listed shorter contexts.

    Raises:
        InputError: they are not.
    """
    number = vocabulary_size
    for keys in contexts:
        refuse_unless(path, _is_table(keys, number, vocabulary_size))
        number = len(keys)


def _is_table(keys: np.ndarray, contexts: int, vocabulary_size: int) -> bool:
    """Whether keys are sorted, and of so many contexts."""
    if keys.dtype != np.int64 or keys.ndim != 1:
        return False
    inside = not len(keys) or (keys[0] >= 0 and int(keys[-1]) < contexts * vocabulary_size)
    return bool(inside and np.all(keys[1:] > keys[:-1]))


def are_counts(array: np.ndarray) -> bool:
    """Whether an array read from a file can hold how often something was seen; what no text has overflows in sums."""
    return array.dtype.kind == "i" and bool((array >= 0).all() and (array < _NO_COUNT).all())


def refuse_unless(path: str | os.PathLike, whole: bool) -> None:
    """Refuse the tables of a file.

    Raises:
        InputError: they are not `whole`.
    """
    if not whole:
        raise InputError(f"{path} holds tables that do not fit together: make the model again.")


def followers(keys: np.ndarray, nodes: np.ndarray, vocabulary_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The n-grams that have one of some contexts.

    Args:
        keys: of the n-grams, context number * |V| + word, sorted.
        nodes: the contexts' numbers, int64 [R].
        vocabulary_size: |V|.

    Returns:
        (owner, place), int64 [M]: the n-gram at `keys[place]` has the context `nodes[owner]`.

    Example:

    >>> followers(np.array([4, 7, 12, 25]), np.array([0, 2]), vocabulary_size=10)
    (array([0, 0, 1]), array([0, 1, 3]))
    """
    begin = np.searchsorted(keys, nodes * vocabulary_size)
    number = np.searchsorted(keys, (nodes + 1) * vocabulary_size) - begin
    owner = np.repeat(np.arange(len(nodes)), number)
    return owner, np.arange(len(owner)) + np.repeat(begin - np.cumsum(number) + number, number)


@dataclasses.dataclass(frozen=True)
class ContextTrie:
    """The contexts that were seen, read from the last word backwards.

    A context of one word is numbered by the word's id. One of k words is the child of its last k-1 words, and its
    number is the place of its key, parent * |V| + oldest word, in the sorted `keys[k - 2]`.

    Args:
        vocabulary_size: |V|.
        keys: for k = 2, 3, … the keys of the contexts of k words, sorted, int64.

    Example:

    >>> trie = ContextTrie(10, [np.array([5 * 10 + 4, 6 * 10 + 4])])  # the contexts (4, 5) and (4, 6)
    >>> for rows, nodes in trie.walk(np.array([[4, 6], [6, 5]])):
    ...     print(rows, nodes)
    [0 1] [6 5]
    [0] [1]
    """

    vocabulary_size: int
    keys: list[np.ndarray]

    @property
    def sizes(self) -> list[int]:
        """How many numbers the contexts of 1, 2, … words have."""
        return [self.vocabulary_size, *map(len, self.keys)]

    def walk(self, context_ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For contexts of 1, 2, … words: which rows have a known one of that length, and its number.

        Args:
            context_ids: int [B, k], oldest first. A context begins after the last `<pad>` and with the last `<s>`.

        Yields:
            (rows int64 [R] ascending, nodes int64 [R]).
        """
        rows, nodes = np.arange(len(context_ids)), np.zeros(0, np.int64)
        for length in range(1, min(len(self.keys) + 1, context_ids.shape[1]) + 1):
            words = context_ids[rows, -length].astype(np.int64)
            if length == 1:
                whole = words != PAD_ID
                rows, nodes = rows[whole], words[whole]
            else:
                whole = (words != PAD_ID) & (context_ids[rows, 1 - length] != BOS_ID)
                rows = rows[whole]
                nodes = find(self.keys[length - 2], nodes[whole] * self.vocabulary_size + words[whole])
                rows, nodes = rows[nodes >= 0], nodes[nodes >= 0]
            if not len(rows):
                return
            yield rows, nodes

    def parents(self, length: int) -> np.ndarray | None:
        """The number of each context of a length without its oldest word, int64; None for those of one word."""
        return self.keys[length - 2] // self.vocabulary_size if length > 1 else None

    def words(self, length: int) -> np.ndarray:
        """The words of all contexts of a length, oldest first: int64 [number, length]."""
        if length == 1:
            return np.arange(self.vocabulary_size)[:, None]
        parents, oldest = np.divmod(self.keys[length - 2], self.vocabulary_size)
        return np.column_stack([oldest, self.words(length - 1)[parents]])


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """The n-grams of orders 1 to n of a text, each order's sorted by key, context number * |V| + last word.

    Attributes, lists with an entry an order k = 1 … n:
        contexts: the trie of their contexts.
        keys: int64 [N_k]. Those of order 1 are the words' ids.
        counts: how often each was seen, c(w_1 … w_k).
        continuation_counts: how many words were seen before it, N1+(• w_1 … w_k), at least 1; where it begins with
            `<s>`, which nothing can precede, its count; at order n its count, too.
        suffixes: the place of w_2 … w_k among those of order k-1 (empty for k = 1).
    """

    contexts: ContextTrie
    keys: list[np.ndarray]
    counts: list[np.ndarray]
    continuation_counts: list[np.ndarray]
    suffixes: list[np.ndarray]

    @property
    def order(self) -> int:
        """n."""
        return len(self.keys)

    def look_up(self, ngrams: np.ndarray) -> np.ndarray:
        """How often each n-gram of the highest order was seen, int64 [B], for int [B, n]."""
        counts = np.zeros(len(ngrams), np.int64)
        for length, (rows, nodes) in enumerate(self.contexts.walk(ngrams[:, :-1]), start=1):
            if length == self.order - 1:
                place = find(self.keys[-1], nodes * self.contexts.vocabulary_size + ngrams[rows, -1])
                counts[rows] = np.where(place < 0, 0, self.counts[-1][place])
        return counts

    def nodes(self, order: int) -> np.ndarray:
        """The number of the context of each n-gram of an order; 0 for unigrams."""
        return self.keys[order - 1] // self.contexts.vocabulary_size


def count_ngrams(ids: np.ndarray, vocabulary_size: int, order: int, boundary: str = "sentence") -> NgramCounts:
    """Count the n-grams of every order up to n: a sort an order, no loop over n-grams.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        vocabulary_size: |V|; ids are below it.
        order: n, 2 or more.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.

    Raises:
        InputError: an option is out of range, or the text is empty.

    Example:

    >>> counted = count_ngrams(np.array([4, 5, 4, 5, 3]), vocabulary_size=6, order=2, boundary="stream")
    >>> counted.keys[1] // 6, counted.keys[1] % 6, counted.counts[1]
    (array([4, 5]), array([5, 4]), array([2, 1]))
    """
    tokens, positions = ngram_positions(ids, order, boundary)
    targets = tokens[positions].astype(np.int64)
    context_keys, keys, counts, continuations, suffixes = [], [], [], [], []
    begins_with_bos = np.zeros(0, bool)  # of the n-grams of order k-1
    rows, nodes = np.arange(len(positions)), np.zeros(len(positions), np.int64)
    ngram_of = np.zeros(
        len(positions), np.int64
    )  # the place among the n-grams of order k-1 of the one at each position
    for k in range(1, order + 1):
        older = tokens[positions[rows] - (k - 1)].astype(np.int64)  # the first word of the n-gram
        if k > 1:
            whole = older != PAD_ID
            if k > 2:
                whole &= tokens[positions[rows] - (k - 2)] != BOS_ID
            rows, older, nodes = rows[whole], older[whole], nodes[whole]
            if k == 2:
                nodes = older
            else:
                seen, nodes = np.unique(nodes * vocabulary_size + older, return_inverse=True)
                context_keys.append(seen)
        seen, first, place, count = np.unique(
            nodes * vocabulary_size + targets[rows], return_index=True, return_inverse=True, return_counts=True
        )
        suffix = ngram_of[rows[first]] if k > 1 else np.zeros(0, np.int64)
        if k > 1:
            continuations.append(_continuation_counts(counts[-1], begins_with_bos, suffix))
        keys.append(seen)
        counts.append(count)
        suffixes.append(suffix)
        begins_with_bos = older[first] == BOS_ID
        ngram_of = np.full(len(positions), -1)
        ngram_of[rows] = place
    continuations.append(counts[-1])
    return NgramCounts(ContextTrie(vocabulary_size, context_keys), keys, counts, continuations, suffixes)


def _continuation_counts(counts: np.ndarray, begins_with_bos: np.ndarray, suffixes: np.ndarray) -> np.ndarray:
    """N1+(• w_1 … w_k) from the suffixes of the n-grams one longer."""
    preceded = np.bincount(suffixes, minlength=len(counts))
    return np.where(begins_with_bos, counts, np.maximum(preceded, 1))


@dataclasses.dataclass(frozen=True)
class ContextFrequencies:
    """How often each context of 1 to k words was seen in training: what weights may depend on.

    Args:
        contexts: the trie.
        counts: for each length 1 … k how often the context of each number was seen, int64.

    Example:

    >>> counted = count_ngrams(np.array([4, 5, 4, 5, 3]), vocabulary_size=6, order=3, boundary="stream")
    >>> ContextFrequencies.of(counted).look_up(np.array([[5, 4], [4, 4], [5, 2]]))
    array([[2, 1],
           [2, 0],
           [0, 0]])
    """

    contexts: ContextTrie
    counts: list[np.ndarray]

    @classmethod
    def of(cls, counted: NgramCounts) -> "ContextFrequencies":
        """From the counts of a text; contexts of up to n-1 words."""
        sizes = enumerate(counted.contexts.sizes, start=1)
        counts = [np.bincount(counted.nodes(k + 1), counted.counts[k], minlength=size) for k, size in sizes]
        return cls(counted.contexts, [count.astype(np.int64) for count in counts])

    @property
    def tokens(self) -> int:
        """T, how many words of the training text had a context; 1 where none had."""
        return max(1, int(self.counts[0].sum()))

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """How often the last 1, 2, … k words of each context were seen, int64 [B, k]; 0 where it is shorter."""
        frequencies = np.zeros((len(context_ids), len(self.counts)), np.int64)
        for length, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            frequencies[rows, length] = self.counts[length][nodes]
        return frequencies
