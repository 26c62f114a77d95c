"""n-gram counts of a text, as sorted tables: the input of every count-based model."""

import dataclasses

import numpy as np

from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.models.ngrams.tables import ContextTrie, find


@dataclasses.dataclass(frozen=True)
class NgramCounts:
    """n-gram counts of orders 1 to n; the n-grams of an order are sorted by key, context number * |V| + last word.

    Attributes, lists with an entry for each order k = 1 … n:
        keys: int64 [N_k]. The keys of order 1 are word ids.
        counts: c(w_1 … w_k), how often each n-gram occurs.
        continuation_counts: N1+(• w_1 … w_k), how many different words occur before the n-gram, at least 1. For an
            n-gram that begins with `<s>`, and at order n: its count.
        suffixes: the place of w_2 … w_k among the n-grams of order k-1 (empty for k = 1).
    """

    contexts: ContextTrie
    keys: list[np.ndarray]
    counts: list[np.ndarray]
    continuation_counts: list[np.ndarray]
    suffixes: list[np.ndarray]

    @property
    def order(self) -> int:
        return len(self.keys)

    def look_up(self, ngrams: np.ndarray) -> np.ndarray:
        """Return the count of each n-gram of the highest order, int64 [B], for int [B, n]."""
        nodes = self.contexts.find_nodes(ngrams[:, :-1])
        place = find(self.keys[-1], np.where(nodes < 0, -1, nodes * self.contexts.vocabulary_size + ngrams[:, -1]))
        return np.where(place < 0, 0, self.counts[-1][place])

    def nodes(self, order: int) -> np.ndarray:
        """The context number of each n-gram of an order; 0 for unigrams."""
        return self.keys[order - 1] // self.contexts.vocabulary_size


def count_ngrams(ids: np.ndarray, vocabulary_size: int, order: int, boundary: str = "sentence") -> NgramCounts:
    """Count the n-grams of orders 1 to n of a text: one sort for each order, no loop over n-grams."""
    tokens, positions = ngram_positions(ids, order, boundary)
    targets = tokens[positions].astype(np.int64)
    context_keys, keys, counts, continuations, suffixes = [], [], [], [], []
    begins_with_bos = np.zeros(0, bool)  # for each n-gram of order k-1
    rows, nodes = np.arange(len(positions)), np.zeros(len(positions), np.int64)
    ngram_at = np.zeros(len(positions), np.int64)  # the place of each position's n-gram in the keys of order k-1
    for k in range(1, order + 1):
        oldest = tokens[positions[rows] - (k - 1)].astype(np.int64)  # the first word of the n-gram
        if k > 1:
            exists = oldest != PAD_ID
            if k > 2:
                exists &= tokens[positions[rows] - (k - 2)] != BOS_ID
            rows, oldest, nodes = rows[exists], oldest[exists], nodes[exists]
            if k == 2:
                nodes = oldest
            else:
                context_key, nodes = np.unique(nodes * vocabulary_size + oldest, return_inverse=True)
                context_keys.append(context_key)
        key, first, place, count = np.unique(
            nodes * vocabulary_size + targets[rows], return_index=True, return_inverse=True, return_counts=True
        )
        suffix = ngram_at[rows[first]] if k > 1 else np.zeros(0, np.int64)
        if k > 1:
            continuations.append(_count_continuations(counts[-1], begins_with_bos, suffix))
        keys.append(key)
        counts.append(count)
        suffixes.append(suffix)
        begins_with_bos = oldest[first] == BOS_ID
        ngram_at = np.full(len(positions), -1)
        ngram_at[rows] = place
    continuations.append(counts[-1])
    return NgramCounts(ContextTrie(vocabulary_size, context_keys), keys, counts, continuations, suffixes)


def _count_continuations(counts: np.ndarray, begins_with_bos: np.ndarray, suffixes: np.ndarray) -> np.ndarray:
    """Return N1+(• w_1 … w_k), from the suffixes of the n-grams of order k+1."""
    num_preceding = np.bincount(suffixes, minlength=len(counts))
    return np.where(begins_with_bos, counts, np.maximum(num_preceding, 1))


@dataclasses.dataclass(frozen=True)
class ContextFrequencies:
    """Training frequencies of contexts of 1 to k words: for each length int64, by the number of the context."""

    contexts: ContextTrie
    counts: list[np.ndarray]

    @classmethod
    def from_counts(cls, counts: NgramCounts) -> "ContextFrequencies":
        """Return the frequencies of the contexts of 1 to n-1 words of a text, from its n-gram counts."""
        sizes = enumerate(counts.contexts.sizes, start=1)
        frequencies = [np.bincount(counts.nodes(k + 1), counts.counts[k], minlength=size) for k, size in sizes]
        return cls(counts.contexts, [frequency.astype(np.int64) for frequency in frequencies])

    @property
    def tokens(self) -> int:
        """T, the number of training tokens with a context; 1 if there were 0."""
        return max(1, int(self.counts[0].sum()))

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the frequency of the last 1, 2, … k words of each context, int64 [B, k]."""
        frequencies = np.zeros((len(context_ids), len(self.counts)), np.int64)
        for length, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            frequencies[rows, length] = self.counts[length][nodes]
        return frequencies
