"""Exact perplexity of a text under any language model with `log_prob(context_ids, target_ids)`."""

import math
from collections.abc import Iterator

import numpy as np

from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.data.vocabulary import UNK_ID
from keras_nplm.io.errors import RunError
from keras_nplm.models.base import NextWordModel, choose_boundary, row_blocks

_BLOCK_SIZE = 1 << 16  # n-grams in a call of `log_prob`
_PART_SIZE = 1 << 20  # ids of an array that are arranged as n-grams at a time


def log_probs(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the log-probability of every n-gram of a text, in the order of the text, in blocks.

    Args:
        model: any language model; `order` and `log_prob` suffice.
        ids: as in `evaluate`.
        boundary: `"sentence"` or `"stream"`. Default: the model's; see `evaluate`.

    Yields:
        (log_prob float [B] in nats, target_ids int32 [B]).

    Raises:
        InputError: the text is empty, or `boundary` differs from the model's.
    """
    if not isinstance(ids, Iterator):
        whole = np.asarray(ids, np.int32)
        ids = (whole[part] for part in row_blocks(len(whole), _PART_SIZE))
    for ngrams in ngram_blocks(ids, model.order, choose_boundary(model, boundary), _BLOCK_SIZE):
        yield model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1]


def evaluate(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> dict[str, float | int | None]:
    """Return the perplexity of a text, summed in float64.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model; `order` and `log_prob` suffice.
        ids: int32 [T], each sentence closed by `</s>`; or an iterator over parts of them, for a text larger than
            memory. The figures do not depend on where the text is cut.
        boundary: `"sentence"`: contexts end at the sentence's start, and words and `</s>` are predicted. `"stream"`:
            contexts cross sentence ends, and only words are predicted. Perplexities of different boundaries are not
            comparable. Default: `model.boundary`, or `"sentence"` for a model without one.

    Returns:
        dict: `perplexity` over all predicted tokens, out-of-vocabulary tokens counted as the word `<unk>`;
        `perplexity_without_unk` over the predicted tokens other than `<unk>`; `tokens`, the number of predicted
        tokens; `unk_tokens`, how many of them were `<unk>`; `log_prob`, the sum in nats; `bits_per_word`, log2 of the
        perplexity. A perplexity over 0 tokens is None.

    Raises:
        InputError: the text has no word to predict, or `boundary` differs from the model's.
        RunError: a word of the text has probability 0, or a log-probability is NaN.

    Example:

    >>> class UniformOverEight:
    ...     order = 2
    ...     def log_prob(self, context_ids, target_ids):
    ...         return np.full(len(target_ids), -np.log(8))
    >>> result = evaluate(UniformOverEight(), np.array([4, 1, 5, 3]))
    >>> round(result["perplexity"], 6), result["tokens"], result["unk_tokens"], round(result["bits_per_word"], 6)
    (8.0, 4, 1, 3.0)
    """
    total = unk = 0.0
    tokens = unk_tokens = 0
    for log_prob, target_ids in log_probs(model, ids, boundary):
        is_unk = target_ids == UNK_ID
        total += log_prob.sum(dtype=np.float64)
        unk += log_prob[is_unk].sum(dtype=np.float64)
        tokens, unk_tokens = tokens + len(log_prob), unk_tokens + int(is_unk.sum())
    name = type(model).__name__
    if total == -math.inf:
        raise RunError(
            f"{name} gives a word of the text probability 0. Fix: mix the model with the uniform distribution "
            "(`mix --uniform`), or evaluate it with the boundary of its training."
        )
    if not math.isfinite(total):
        raise RunError(
            f"The log-probability of the text under {name} must be finite. Received: {total}. "
            "Fix: train the model again, its weights are not finite."
        )
    known = tokens - unk_tokens
    return {
        "perplexity": _exp(-total / tokens),
        "perplexity_without_unk": _exp((unk - total) / known) if known else None,
        "tokens": tokens,
        "unk_tokens": unk_tokens,
        "log_prob": float(total),
        "bits_per_word": float(-total / tokens / math.log(2)),
    }


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def format_perplexity(perplexity: float | None) -> str:
    """Format a perplexity for a table: two decimals, a dash where there were no tokens.

    Example:

    >>> format_perplexity(61.368), format_perplexity(None)
    ('61.37', '–')
    """
    return "–" if perplexity is None else f"{perplexity:.2f}"
