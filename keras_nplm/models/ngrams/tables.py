"""Sorted n-gram tables: binary-search look-up, contexts as a trie, and checks of tables read from
files.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID

# look-ups from which sorting them pays: neighbours share most of their binary search
SORT_FROM = 1 << 8


def take(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return values[places], or the last value for places above: without a check this is twice as
    fast as `[]`.
    """
    return values.take(places, mode="clip")


def find(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return the place of each wanted key in the sorted `keys`, or -1: int64."""
    place, is_found = search(keys, wanted)
    return np.where(is_found, place, -1)


def search(keys: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each wanted key in the sorted `keys`, int64, and whether it is there.

    For a key that is not there, the place is arbitrary.
    """
    if not len(keys):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), bool)
    if len(wanted) >= SORT_FROM:
        in_order, by_key = sort_with_places(wanted)
        place = np.empty(len(wanted), np.int64)
        place[by_key] = keys.searchsorted(in_order)
    else:
        place = keys.searchsorted(wanted)
    # `take` reads the last key at the place after it, where a key above all others would be
    return place, take(keys, place) == wanted


def sort_with_places(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted integers, and the place of each in `values`: int64.

    Value and place are packed into one integer where they fit: sorting it takes a third of the time
    of `argsort` and a gather.
    """
    bits = (len(values) - 1).bit_length()
    limit = 1 << (63 - bits)
    if not len(values) or values.min() < -limit or values.max() >= limit:
        by_value = np.argsort(values)
        return values[by_value], by_value
    packed = np.left_shift(values, bits, dtype=np.int64)
    packed |= np.arange(len(values))
    packed.sort()
    places = packed & ((1 << bits) - 1)
    packed >>= bits
    return packed, places


def find_followers(
    keys: np.ndarray, nodes: np.ndarray, vocabulary_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (owner, place), int64 [M]: the n-grams at `keys[place]` have the contexts
    `nodes[owner]`.
    """
    begin = np.searchsorted(keys, nodes * vocabulary_size)
    number = np.searchsorted(keys, (nodes + 1) * vocabulary_size) - begin
    owner = np.repeat(np.arange(len(nodes)), number)
    # the n-grams of a context follow each other in the keys, and in the result
    shift = begin - (np.cumsum(number) - number)
    return owner, np.arange(len(owner)) + np.repeat(shift, number)


@dataclasses.dataclass(frozen=True)
class ContextTrie:
    """Trie of contexts, each read from its last word backwards.

    The number of a context of one word is the word's id. A context of k words is the child of its
    last k-1 words. Its number is the place of its key, parent * |V| + oldest word, in the sorted
    `keys[k - 2]`.
    """

    vocabulary_size: int
    keys: list[np.ndarray]

    @property
    def sizes(self) -> list[int]:
        """The numbers of contexts of 1, 2, … words: `sizes[k - 2]` for n-grams of order k."""
        return [self.vocabulary_size, *map(len, self.keys)]

    def walk(self, context_ids: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Look up the last 1, 2, … words of contexts, until no row has a known context."""
        rows = np.arange(len(context_ids))
        nodes = np.zeros(0, np.int64)
        for length in range(1, min(len(self.keys) + 1, context_ids.shape[1]) + 1):
            words = take(context_ids[:, -length], rows)
            is_valid = words != PAD_ID
            if length > 1:
                is_valid &= take(context_ids[:, 1 - length], rows) != BOS_ID
            else:
                nodes = words.astype(np.int64)
            if not is_valid.all():
                [valid] = is_valid.nonzero()
                if not len(valid):  # shortened contexts end here, without a search
                    return
                rows = take(rows, valid)
                nodes = take(nodes, valid)
                words = take(words, valid)
            if length > 1:
                wanted = nodes * self.vocabulary_size + words
                nodes, is_known = search(self.keys[length - 2], wanted)
                [known] = is_known.nonzero()
                rows = take(rows, known)
                nodes = take(nodes, known)
            if not len(rows):
                return
            yield rows, nodes

    @classmethod
    def from_contexts(
        cls, vocabulary_size: int, contexts: Sequence[np.ndarray], longest: int
    ) -> "ContextTrie":
        """Build the trie of contexts, int [N, length] each, and of their endings."""
        trie = cls(vocabulary_size, [])
        for k in range(2, longest + 1):
            found = []
            for ids in contexts:
                if ids.shape[1] >= k:
                    endings = ids[:, -k:]
                    parents = trie.find_nodes(endings[:, 1:])
                    found.append(np.unique(parents * vocabulary_size + endings[:, 0]))
            trie.keys.append(np.unique(np.concatenate(found)))
        return trie

    def find_nodes(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the numbers of contexts of one length, int64 [N], for int [N, length]; -1 if not
        listed.
        """
        nodes = context_ids[:, -1].astype(np.int64)
        for length in range(2, context_ids.shape[1] + 1):
            wanted = nodes * self.vocabulary_size + context_ids[:, -length]
            nodes = find(self.keys[length - 2], wanted)
        return nodes

    def find_keys(self, ngrams: np.ndarray) -> np.ndarray:
        """Return the keys of n-grams of one order, int [N, order], whose contexts are listed."""
        if ngrams.shape[1] == 1:
            return ngrams[:, 0]
        return self.find_nodes(ngrams[:, :-1]) * self.vocabulary_size + ngrams[:, -1]

    def find_endings(self, order: int, keys: np.ndarray) -> np.ndarray:
        """Return the keys of n-grams of an order from 3 without their oldest words."""
        nodes, words = np.divmod(keys, self.vocabulary_size)
        return self.parents(order - 1)[nodes] * self.vocabulary_size + words

    def parents(self, length: int) -> np.ndarray:
        """The number of each context of a length without its oldest word, int64: 0 for length 1."""
        if length == 1:
            return np.zeros(self.vocabulary_size, np.int64)
        return self.keys[length - 2] // self.vocabulary_size

    def words(self, length: int, nodes: np.ndarray | None = None) -> np.ndarray:
        """The words of contexts of a length, oldest first: int64 [contexts, length]."""
        if nodes is None:
            nodes = np.arange(self.sizes[length - 1])
        columns = []
        for k in range(length, 1, -1):
            nodes, oldest = np.divmod(self.keys[k - 2][nodes], self.vocabulary_size)
            columns.append(oldest)
        return np.column_stack([*columns, nodes])
