"""Sort and count the n-grams of several orders in memory, by integer keys: the inner loop of all
counts.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID

_KEY_BITS = 63  # of int64


@dataclasses.dataclass(frozen=True)
class SortedContexts:
    """Distinct contexts of one length, int64 [C]: the oldest words, and the places of the contexts
    without them.
    """

    parents: np.ndarray
    oldest: np.ndarray


@dataclasses.dataclass(frozen=True)
class SortedNgrams:
    """The distinct n-grams of one order, sorted by context and last word: int64 [N], all.

    `nodes` are the places of their contexts. `counts` are what Kneser-Ney counts: continuation
    counts, and at the highest order and after `<s>` how often an n-gram occurs. `occurrences` are
    how often it occurs, at every order. `suffixes` are places in the order below; empty for the
    lowest order.
    """

    nodes: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    occurrences: np.ndarray
    suffixes: np.ndarray


def sort_ngrams(
    ngrams: np.ndarray, length: int, vocabulary_size: int, weights: np.ndarray | None = None
) -> tuple[list[SortedContexts], list[SortedNgrams]]:
    """Sort and count the n-grams of the orders from `length` + 2 to n, with their contexts of two
    words or more.

    `ngrams`, int32 [M, n], have one row for each token. Their last `length` context words are the
    same, and none is `<s>`. Each order below n is sorted from the n-grams of the order above
    without their oldest word. `weights`, int64 [M]: how many tokens a row stands for; default: 1.
    """
    bits = max(1, (vocabulary_size - 1).bit_length())
    columns = _mask_columns([ngrams[:, -2 - i] for i in range(length, ngrams.shape[1] - 1)])
    by_context = _sort_columns(columns, bits)
    targets = ngrams[by_context, -1].astype(np.int64)
    columns = [column[by_context] for column in columns]
    contexts, nodes = _number_contexts(columns, is_single_word=length == 0)
    result: list[SortedNgrams] = []
    for i in reversed(range(len(columns))):
        is_highest = i == len(columns) - 1
        ends_here = columns[i] != PAD_ID  # the longest n-gram of the token has this order
        if not is_highest:
            ends_here &= columns[i + 1] == PAD_ID
        keys = nodes[i][ends_here] << bits | targets[ends_here]
        tokens = None if weights is None else weights[by_context][ends_here]
        node_bits = bits if length + i == 0 else len(ngrams).bit_length()
        if is_highest:
            if tokens is None:
                keys.sort()
            else:
                by_key = _argsort(keys, node_bits + bits)
                keys = keys[by_key]
                tokens = tokens[by_key]
            starts = _find_starts(keys)
            counts = np.diff(starts, append=len(keys))
            if tokens is not None:
                counts = np.add.reduceat(tokens, starts)
            keys = keys[starts]
            occurrences = counts
        else:
            above = result[-1]
            keeps_count = columns[i][ends_here] == BOS_ID
            # contexts of one word are ids, which `contexts` do not list
            longer = contexts[i] if length == 0 else contexts[i + 1]
            from_above = longer.parents[above.nodes] << bits | above.words
            keys = np.concatenate([from_above, keys[keeps_count], keys[~keeps_count]])
            num_counted = len(from_above) + int(np.count_nonzero(keeps_count))
            if tokens is not None:
                tokens = np.concatenate([tokens[keeps_count], tokens[~keeps_count]])
            keys, counts, places = _count_keys(keys, num_counted, node_bits + bits, tokens)
            suffixes = places[: len(from_above)]
            of_longer = np.bincount(suffixes, above.occurrences, len(keys))
            of_tokens = np.bincount(places[len(from_above) :], tokens, len(keys))
            occurrences = (of_longer + of_tokens).astype(np.int64)
            result[-1] = dataclasses.replace(above, suffixes=suffixes)
        words = keys & ((1 << bits) - 1)
        result.append(SortedNgrams(keys >> bits, words, counts, occurrences, np.zeros(0, np.int64)))
    return contexts, result[::-1]


def _mask_columns(columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Replace the words beyond the first `<s>` or `<pad>` of a context by `<pad>`, in columns from
    the last word.
    """
    masked = [columns[0]]
    for column in columns[1:]:
        exists = (masked[-1] != PAD_ID) & (masked[-1] != BOS_ID)
        masked.append(np.where(exists, column, PAD_ID))
    return masked


def _sort_columns(columns: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Return the order of rows that sorts by the first column, then by the second, and so on."""
    keys = columns[0].astype(np.int64)
    used = bits
    for column in columns[1:]:
        if used + bits > _KEY_BITS:
            keys = _rank(keys, used)
            used = len(keys).bit_length()
        keys = keys << bits | column
        used += bits
    return _argsort(keys, used)


def _rank(keys: np.ndarray, bits: int) -> np.ndarray:
    """Replace keys by their places among the distinct keys."""
    by_key = _argsort(keys, bits)
    sorted_keys = keys[by_key]
    ranks = np.empty_like(keys)
    ranks[by_key] = np.cumsum(np.diff(sorted_keys, prepend=sorted_keys[:1]) != 0)
    return ranks


def _argsort(keys: np.ndarray, bits: int) -> np.ndarray:
    """Return an order that sorts keys of a number of bits. Equal keys come in any order."""
    index_bits = len(keys).bit_length()
    if bits + index_bits > _KEY_BITS:
        # a stable order would take four times as long
        return np.argsort(keys)
    # sorting values takes half the time of sorting their places
    packed = keys << index_bits
    packed |= np.arange(len(keys))
    packed.sort()
    packed &= (1 << index_bits) - 1
    return packed


def _find_starts(sorted_keys: np.ndarray) -> np.ndarray:
    """Return the place of the first of each run of equal keys."""
    is_first = np.ones(len(sorted_keys), bool)
    np.not_equal(sorted_keys[1:], sorted_keys[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _number_contexts(
    columns: Sequence[np.ndarray], is_single_word: bool
) -> tuple[list[SortedContexts], list[np.ndarray]]:
    """Return the distinct contexts of each length of sorted tokens, and for each column the number
    of each context.
    """
    contexts = []
    nodes = []
    changes = np.zeros(len(columns[0]), bool)
    changes[:1] = True
    for i, column in enumerate(columns):
        changes[1:] |= column[1:] != column[:-1]
        if is_single_word and i == 0:
            nodes.append(column.astype(np.int64))
            continue
        is_first = changes & (column != PAD_ID)
        first = np.flatnonzero(is_first)
        parents = nodes[-1][first] if i else np.zeros(len(first), np.int64)
        contexts.append(SortedContexts(parents, column[first].astype(np.int64)))
        nodes.append(np.cumsum(is_first) - 1)
    return contexts, nodes


def _count_keys(
    keys: np.ndarray, num_counted: int, bits: int, tokens: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct keys, their counts without keys from `num_counted` on, and the place of
    each key. `tokens`: how often the last keys count; default: once, as the first ones.
    """
    by_key = _argsort(keys, bits)
    sorted_keys = keys[by_key]
    starts = _find_starts(sorted_keys)
    counts = np.diff(starts, append=len(keys))
    places = np.empty(len(keys), np.int64)
    places[by_key] = np.repeat(np.arange(len(starts)), counts)
    np.subtract.at(counts, places[num_counted:], 1)
    if tokens is not None:
        first = len(keys) - len(tokens)
        np.add.at(counts, places[first:num_counted], tokens[: num_counted - first] - 1)
    return sorted_keys[starts], np.maximum(counts, 1), places
