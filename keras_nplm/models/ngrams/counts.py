"""n-gram counts of a text, as sorted tables: the input of every count-based model."""

import dataclasses

import numpy as np

from keras_nplm.data.ids import PAD_ID, check_ids, convert_ids
from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.io.errors import check_argument, check_integer
from keras_nplm.models.ngrams.sorting import sort_ngrams
from keras_nplm.models.ngrams.tables import ContextTrie


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """n-gram counts of orders 1 to n; the n-grams of an order are sorted by key, context number *
    |V| + last word.

    An n-gram has no `<pad>`, and `<s>` only as its first word. A token with fewer than k-1 words
    before it ends no n-gram of order k.

    Attributes, lists with an entry for each order k = 1 … n:
        keys: int64 [N_k]. The keys of order 1 are word ids.
        counts: c(w_1 … w_k), how often each n-gram occurs.
        continuation_counts: N1+(• w_1 … w_k), how many different words occur before the n-gram, at
            least 1. For an n-gram that begins with `<s>`, and at order n: its count.
        suffixes: the place of w_2 … w_k among the n-grams of order k-1 (empty for k = 1).
    """

    contexts: ContextTrie
    keys: list[np.ndarray]
    counts: list[np.ndarray]
    continuation_counts: list[np.ndarray]
    suffixes: list[np.ndarray]

    def nodes(self, order: int) -> np.ndarray:
        """The context number of each n-gram of an order; 0 for unigrams."""
        return self.keys[order - 1] // self.contexts.vocabulary_size


def count_ngrams(
    ids: np.ndarray, vocabulary_size: int, order: int, boundary: str = "sentence"
) -> NgramCounts:
    """Count the n-grams of orders 1 to n of a text: the longest are sorted, without a loop over
    n-grams.

    >>> counts = count_ngrams(np.array([4, 5, 4, 5, 6, 3]), vocabulary_size=7, order=2)
    >>> counts.keys[0].tolist(), counts.counts[0].tolist()  # words, and how often each occurs
    ([3, 4, 5, 6], [1, 2, 2, 1])
    """
    check_integer("order", order, 1)
    ids = convert_ids(ids)
    check_ids(ids, vocabulary_size)
    tokens, positions = ngram_positions(ids, order, boundary)
    ngrams = gather_ngrams(tokens, positions, order)
    words, counts = np.unique(ngrams[:, -1].astype(np.int64), return_counts=True)
    no_suffixes = np.zeros(0, np.int64)
    if order == 1:
        trie = ContextTrie(vocabulary_size, [])
        return NgramCounts(trie, [words], [counts], [counts], [no_suffixes])
    contexts, longer = sort_ngrams(ngrams[ngrams[:, -2] != PAD_ID], 0, vocabulary_size)
    keys_of_contexts = [level.parents * vocabulary_size + level.oldest for level in contexts]
    num_preceding = np.bincount(longer[0].words, minlength=vocabulary_size)[words]
    result = NgramCounts(
        contexts=ContextTrie(vocabulary_size, keys_of_contexts),
        keys=[words],
        counts=[counts],
        continuation_counts=[np.maximum(num_preceding, 1)],
        suffixes=[no_suffixes, np.searchsorted(words, longer[0].words)],
    )
    for of_order in longer:
        result.keys.append(of_order.nodes * vocabulary_size + of_order.words)
        result.counts.append(of_order.occurrences)
        result.continuation_counts.append(of_order.counts)
    for of_order in longer[1:]:
        result.suffixes.append(of_order.suffixes)
    return result


@dataclasses.dataclass(frozen=True)
class ContextFrequencies:
    """Training frequencies of contexts of 1 to k words: for each length int64, by the number of the
    context.

    >>> counts = count_ngrams(np.array([4, 5, 4, 5, 6, 3]), vocabulary_size=7, order=3)
    >>> ContextFrequencies.from_counts(counts).look_up(np.array([[6, 5], [4, 5]])).tolist()
    [[2, 0], [2, 2]]
    """

    contexts: ContextTrie
    counts: list[np.ndarray]

    @classmethod
    def from_counts(cls, counts: NgramCounts) -> "ContextFrequencies":
        """Return the frequencies of the contexts of 1 to n-1 words of a text, from its n-gram
        counts.
        """
        order = len(counts.keys)
        check_argument("counts", order > 1, "of order 2 or more", order, "contexts have words.")
        frequencies = []
        for length, size in enumerate(counts.contexts.sizes, start=1):
            nodes = counts.nodes(length + 1)
            sums = np.bincount(nodes, counts.counts[length], minlength=size)
            frequencies.append(sums.astype(np.int64))
        return cls(counts.contexts, frequencies)

    @property
    def tokens(self) -> int:
        """T, the number of training tokens with a context; 1 if there were 0."""
        return max(1, int(self.counts[0].sum()))

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the frequency of the last 1, 2, … k words of each context, int64 [B, k]."""
        frequencies = np.zeros((len(context_ids), len(self.counts)), np.int64)
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            frequencies[rows, k] = self.counts[k][nodes]
        return frequencies
