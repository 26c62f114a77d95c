"""N-grams of token ids as NumPy arrays: every n-gram is a contiguous slice of arranged ids."""

from collections.abc import Iterable, Iterator

import numpy as np

from keras_nplm.data.boundary import check_boundary, context_end, find_targets, padding_id
from keras_nplm.data.ids import convert_ids
from keras_nplm.io.errors import InputError


def ngram_positions(ids: np.ndarray, order: int, boundary: str) -> tuple[np.ndarray, np.ndarray]:
    """Arrange token ids so that every n-gram (n-1 words of context and the target) is a contiguous
    slice.

    Boundary `"sentence"`: n-1 tokens `<s>` come before each sentence, and its words and `</s>` are
    predicted. `"text"`: one running text with its `</s>`. Words and `</s>` are predicted, and
    n-grams cross sentence ends, as in published perplexities of the Penn Treebank (those of
    WikiText have an `</s>` for each blank line, too). An `<s>` in the ids begins a document: it
    becomes n-1 tokens `<s>`, and is no target. `"stream"`: one running text without `</s>`, in
    which n-grams cross sentence ends, as in the paper; `<pad>` fills the first contexts.

    Returns tokens, int32, with the inserted `<s>` or `<pad>`, and positions, int32 [N]: the n-gram
    of target i is `tokens[positions[i] - n + 1 : positions[i] + 1]`, in the order of the text.

    Example:

    >>> ids = np.array([7, 8, 3, 9, 3], np.int32)
    >>> tokens, positions = ngram_positions(ids, order=3, boundary="sentence")
    >>> [tokens[i - 2 : i + 1].tolist() for i in positions]
    [[2, 2, 7], [2, 7, 8], [7, 8, 3], [2, 2, 9], [2, 9, 3]]
    """
    check_boundary(order, boundary)
    tokens, positions = arrange_ngrams(convert_ids(ids), order, boundary)
    _check_not_empty(len(positions))
    return tokens, positions


def _check_not_empty(number: int) -> None:
    if not number:
        raise InputError("The text has no word to predict. Fix: add text.")


def arrange_ngrams(
    ids: np.ndarray, order: int, boundary: str, context: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """As `ngram_positions`, also of no text, and of a text after a context, int32 [n-1].

    The last n-1 tokens are the context of a text that follows.
    """
    context_size = order - 1
    is_target = find_targets(ids, boundary)
    words = ids[is_target]
    end = context_end(boundary)
    is_end = np.zeros(len(ids), bool) if end is None else ids == end
    size = len(words) + context_size * (1 + int(np.count_nonzero(is_end)))
    if size >= 1 << 31:
        raise InputError(
            f"A text in memory must have fewer than {1 << 31:,} tokens with the contexts of order "
            f"{order}. Received: {size:,}. Fix: choose a smaller `order` or a `segment` of 2 or "
            "more, or read the text as `EncodedCorpus.shards`."
        )
    positions = np.arange(context_size, context_size + len(words), dtype=np.int32)
    if end is not None:
        before = np.cumsum(is_end, dtype=np.int32)
        positions += context_size * (before - is_end)[is_target]
    tokens = np.full(size, padding_id(boundary), np.int32)
    tokens[positions] = words
    if context is not None:
        tokens[:context_size] = context
    return tokens, positions


def gather_ngrams(tokens: np.ndarray, positions: np.ndarray, order: int) -> np.ndarray:
    """Gather the n-grams, int32 [B, n], that end at `positions` of `tokens`; see
    `ngram_positions`.
    """
    if not len(positions):
        return np.zeros((0, order), tokens.dtype)
    return np.lib.stride_tricks.sliding_window_view(tokens, order)[positions - (order - 1)]


def extract_ngrams(ids: np.ndarray, order: int, boundary: str) -> np.ndarray:
    """Extract all n-grams of a text, int32 [N, n], in the order of the text; see
    `ngram_positions`.
    """
    return gather_ngrams(*ngram_positions(ids, order, boundary), order)


def ngram_blocks(
    parts: Iterable[np.ndarray], order: int, boundary: str, size: int
) -> Iterator[np.ndarray]:
    """Yield the n-grams of a text, int32 [size, n], in the order of the text and in bounded memory.

    The text comes in parts, cut at any place; the blocks are the same.
    """
    check_boundary(order, boundary)
    held = np.zeros((0, order), np.int32)
    number = 0
    context = None  # the last n-1 tokens of the part before
    for ids in map(convert_ids, parts):
        tokens, positions = arrange_ngrams(ids, order, boundary, context)
        context = tokens[len(tokens) - (order - 1) :]
        number += len(positions)
        while len(positions):
            some, positions = np.split(positions, [size - len(held)])
            held = np.concatenate([held, gather_ngrams(tokens, some, order)])
            if len(held) == size:
                yield held
                held = held[:0]
    _check_not_empty(number)
    if len(held):
        yield held
