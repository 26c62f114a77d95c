"""Kneser-Ney smoothing: interpolated, modified (three discounts for each order); in memory, or on
disk for texts whose n-gram counts are larger than memory.
"""

import bisect
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_nplm.data.boundary import check_boundary, predicted_ids
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.io.arrays import open_archive_to_write
from keras_nplm.io.files import replace_file
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import row_blocks
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.columns import Column, TemporaryColumns
from keras_nplm.models.ngrams.counts import NgramCounter, read_text
from keras_nplm.models.ngrams.runs import MEMORY, choose_run_size, make_rows
from keras_nplm.models.ngrams.tables import ContextTrie, take

BLOCK = 1 << 17  # n-grams that are smoothed at a time
_FALLBACK = (0.5, 1.0, 1.5)  # discounts for texts too small to estimate them


def kneser_ney(
    ids: np.ndarray,
    vocabulary_size: int,
    order: int,
    boundary: str = "sentence",
    predicted: np.ndarray | None = None,
) -> BackoffModel:
    """Estimate an interpolated modified Kneser-Ney n-gram model from a text.

        P(w | h) = (a(h w) - D(a(h w))) / a(h •) + γ(h) P(w | h'),
        unigrams are interpolated with 1/|V'|
        γ(h) = (D_1 N_1(h •) + D_2 N_2(h •) + D_3+ N_3+(h •)) / a(h •)
        D_j = j - (j+1) Y t_(j+1) / t_j,    Y = t_1 / (t_1 + 2 t_2)

    a is the count at order n; at lower orders it is the number of different words before the n-gram
    (Chen & Goodman's equation 27 on). N_j(h •) is the number of words that follow h with a = j, and
    N_3+ counts those with a of 3 or more. t_j is the number of n-grams of the order with a = j. V'
    are the predicted words, which must hold all words of the text. Those that are not in the text
    share the uniform distribution.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        vocabulary_size: |V|.
        order: n, 1 or more. At 1, discounted counts are interpolated with the uniform distribution,
            as by `lmplz -o 1`.
        boundary: `"sentence"`, `"text"` or `"stream"`; see `ngram_positions`.
        predicted: the ids of V'. Default: `<unk>`, the words, and `</s>` unless the boundary is
            `"stream"`; see `predicted_ids`.

    Returns:
        the model, a distribution over V' in every context. `kneser_ney_on_disk` writes the same for
        larger texts.

    Reference: Chen & Goodman (1999), An empirical study of smoothing techniques for language
    modeling; Heafield et al. (2013), Scalable modified Kneser-Ney language model estimation, whose
    `lmplz --vocab_pad` gives the same numbers.
    """
    if predicted is None:
        predicted = predicted_ids(vocabulary_size, boundary)
    blocks = read_text(ids, vocabulary_size, order, boundary)
    with TemporaryColumns() as columns:
        size = choose_run_size(order)
        unigrams, tables = _estimate(
            blocks, len(ids), vocabulary_size, order, predicted, columns, size
        )
        arrays: dict[str, Any] = {}
        for name, of_orders in tables.items():
            arrays[name] = [column.read_all() for column in of_orders]
    trie = ContextTrie(len(unigrams), arrays.pop("contexts"))
    return BackoffModel(trie, unigrams, **arrays, boundary=boundary)


def kneser_ney_on_disk(
    path: str | os.PathLike,
    parts: Iterable[np.ndarray],
    num_tokens: int,
    vocabulary_size: int,
    order: int,
    boundary: str = "sentence",
    memory: int = MEMORY,
) -> None:
    """Estimate the model of `kneser_ney` for a text whose n-gram counts are larger than memory, bit
    for bit the same.

    Counts and tables are temporary files beside `path`. For order 5 they take up to 100 bytes of
    disk for each token.
    """
    check_boundary(order, boundary)
    size = choose_run_size(order, memory)
    blocks = map(make_rows, ngram_blocks(parts, order, boundary, size))
    write_kneser_ney(path, blocks, num_tokens, vocabulary_size, order, boundary, size)


def write_kneser_ney(
    path: str | os.PathLike,
    blocks: Iterable[np.ndarray],
    num_rows: int,
    vocabulary_size: int,
    order: int,
    boundary: str,
    size: int,
) -> None:
    """Write the model of `kneser_ney` of blocks of rows, each of up to `size` rows; see
    `make_rows`.
    """
    with replace_file(path) as temporary, TemporaryColumns(temporary.parent) as columns:
        predicted = predicted_ids(vocabulary_size, boundary)
        unigrams, tables = _estimate(
            blocks, num_rows, vocabulary_size, order, predicted, columns, size
        )
        with open_archive_to_write(temporary) as write:
            write("unigrams", unigrams.dtype, unigrams.shape, [unigrams])
            for name, of_orders in tables.items():
                for i, column in enumerate(of_orders):
                    numbers = (
                        column.read(block.start, BLOCK) for block in row_blocks(len(column), BLOCK)
                    )
                    write(f"{name}.{i}", column.dtype, (len(column),), numbers)
                    column.close()


def _estimate(
    blocks: Iterable[np.ndarray],
    num_rows: int,
    vocabulary_size: int,
    order: int,
    predicted: np.ndarray,
    columns: TemporaryColumns,
    size: int,
) -> tuple[np.ndarray, dict[str, list[Column]]]:
    """Count the n-grams of rows, and smooth each order over the order below, in blocks of about
    `size` n-grams: see `kneser_ney`.

    Return ln P of unigrams, float32 [|V|], and the columns of the other tables of `BackoffModel`.
    """
    counts = NgramCounter(vocabulary_size, order, columns, are_distinct=True)
    vocabulary_size = counts.vocabulary_size
    with open_progress("Counting n-grams", num_rows) as progress:
        counts.count(blocks, size, progress.update)
    block_size = min(BLOCK, size)
    uniform = np.zeros(vocabulary_size)
    uniform[predicted] = 1 / len(predicted)
    words = counts.keys[0].read_all()
    a = counts.counts[0].read_all()
    discounts = estimate_discounts(_count_frequencies(counts.counts[0]))
    discounted, gamma = discount(a, np.zeros_like(words), 1, discounts)
    probability = gamma * uniform
    probability[words] += discounted
    unigrams = compute_logs(probability)
    # P(w | h') of the n-grams of the order below: of all words, since order 1 has few
    lower = columns.add(np.float64)
    lower.append(probability)
    log_probs = [columns.add(np.float32) for _ in counts.keys[1:]]
    backoffs = [columns.add(np.float32) for _ in counts.keys[1:]]
    with open_progress("Smoothing", sum(map(len, counts.keys)), " n-grams") as progress:
        progress.update(len(words))
        for k in range(2, order + 1):
            of_order = columns.add(np.float64)
            discounts = estimate_discounts(_count_frequencies(counts.counts[k - 1]))
            for start, keys, first, end in _iterate_contexts(counts, k, block_size):
                nodes, words = np.divmod(keys - first * vocabulary_size, vocabulary_size)
                a = counts.counts[k - 1].read(start, len(keys))
                discounted, gamma = discount(a, nodes, end - first, discounts)
                backoffs[k - 2].append(compute_logs(gamma))
                if len(keys):
                    below = _read_lower(counts, k, nodes + first, words, lower)
                    probability = discounted + take(gamma, nodes) * below
                    if k < order:
                        of_order.append(probability)
                    log_probs[k - 2].append(compute_logs(probability))
                progress.update(len(keys))
            lower.close()
            lower = of_order
    for column in counts.counts:
        column.close()
    return unigrams, {
        "contexts": counts.contexts,
        "keys": counts.keys[1:],
        "log_probs": log_probs,
        "backoffs": backoffs,
    }


def _iterate_contexts(
    counts: NgramCounter, order: int, block_size: int
) -> Iterator[tuple[int, np.ndarray, int, int]]:
    """Iterate over the n-grams of an order in blocks of whole contexts: yield the place of the
    first n-gram, the keys, the first context, and the one after the last.
    """
    size = counts.vocabulary_size
    column = counts.keys[order - 1]
    num_contexts = size if order == 2 else len(counts.contexts[order - 3])
    start = first = 0
    while first < num_contexts:
        # more than the n-grams of one context
        keys = column.read(start, max(block_size, size + 1))
        end = num_contexts
        if start + len(keys) < len(column):
            end = int(keys[-1]) // size
            keys = keys[: keys.searchsorted(end * size)]
        yield start, keys, first, end
        start += len(keys)
        first = end


def _read_lower(
    counts: NgramCounter, order: int, nodes: np.ndarray, words: np.ndarray, lower: Column
) -> np.ndarray:
    """Return P(w | h') of sorted n-grams of an order, from the column `lower` of the order
    below.
    """
    if order == 2:
        return take(lower.read_all(), words)
    size = counts.vocabulary_size
    wanted = counts.find_parents(order - 1, nodes) * size + words
    column = counts.keys[order - 2]
    # all of the shorter contexts
    start = bisect.bisect_left(column, int(wanted[0]) // size * size)
    end = bisect.bisect_left(column, (int(wanted[-1]) // size + 1) * size)
    keys = column.read(start, end - start)
    return take(lower.read(start, end - start), keys.searchsorted(wanted))


def _count_frequencies(counts: Column) -> np.ndarray:
    """Return the numbers of counts of 0, 1, … 4, and of 5 or more."""
    frequencies = np.zeros(6, np.int64)
    for block in row_blocks(len(counts), BLOCK):
        frequencies += np.bincount(np.minimum(counts.read(block.start, BLOCK), 5), minlength=6)
    return frequencies


def discount(
    counts: np.ndarray, nodes: np.ndarray, num_contexts: int, discounts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the discounted relative frequencies of the n-grams of an order, whose counts are 1 or
    more, and γ of each context (1 if unseen).
    """
    subtracted = discounts[np.minimum(counts, 3) - 1]
    total = np.bincount(nodes, counts, minlength=num_contexts)
    gamma = np.bincount(nodes, subtracted, minlength=num_contexts) / np.maximum(total, 1)
    return (counts - subtracted) / total[nodes], np.where(total > 0, gamma, 1.0)


def estimate_discounts(frequencies: np.ndarray) -> np.ndarray:
    """Return D_1, D_2 and D_3+ from the numbers t_j of n-grams with (continuation) counts j = 0 …
    5+, as KenLM does.
    """
    t = frequencies[1:5].astype(np.float64)
    if not t[:3].all():
        return np.array(_FALLBACK)
    j = np.arange(1, 4)
    estimate = j - (j + 1) * t[0] / (t[0] + 2 * t[1]) * t[1:] / t[:-1]
    if not np.all((estimate > 0) & (estimate <= j)):
        return np.array(_FALLBACK)
    return estimate


def compute_logs(probability: np.ndarray | float) -> np.ndarray:
    """Return ln p in float32, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probability).astype(np.float32)
