"""Exact perplexity of any language model, that is of anything that answers `log_prob(context_ids, target_ids)`."""

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.data.vocabulary import UNK_ID
from keras_nplm.io.errors import RunError

_ROWS = 1 << 14  # n-grams asked of a model at a time


class LogProb(Protocol):
    """The one abstraction that ties the language models together."""

    order: int

    def log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """ln P(target | context), float [B], in nats."""

    def next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """ln P(w | context) for every word w, float [B, |V|], in nats: where a whole distribution is wanted."""


def log_probs(model: LogProb, ids: np.ndarray, boundary: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The log-probability of every n-gram of a text, in its order, some thousands at a time.

    Args:
        model: any language model.
        ids: int32 [T], each sentence closed by `</s>`.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.

    Yields:
        (log_prob float [B] in nats, target_ids int32 [B]).
    """
    tokens, positions = ngram_positions(ids, model.order, boundary)
    for start in range(0, len(positions), _ROWS):
        ngrams = gather_ngrams(tokens, positions[start : start + _ROWS], model.order)
        yield model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1]


def evaluate(model: LogProb, ids: np.ndarray, boundary: str = "stream") -> dict[str, float | int | None]:
    """Perplexity of a text, its sums taken in float64.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model.
        ids: int32 [T], each sentence closed by `</s>`.
        boundary: `"stream"`: words alone are predicted; `"sentence"`: words and `</s>`. The two are different
            quantities: never compare them.

    Returns:
        `perplexity`, over all predicted tokens, `<unk>` among them as an ordinary word; `perplexity_without_unk`, over
        the others; `tokens`, how many were predicted; `unk_tokens`, how many of them were `<unk>`; `log_prob`, the
        sum in nats; `bits_per_word`, the binary logarithm of the perplexity. A perplexity over no tokens is None.

    Raises:
        InputError: there is nothing to predict.
        RunError: the log-probabilities are not finite: the model is broken, or gives a word probability 0.

    Example:

    >>> class Uniform:
    ...     order = 2
    ...     def log_prob(self, context_ids, target_ids):
    ...         return np.full(len(target_ids), -np.log(8))
    >>> result = evaluate(Uniform(), np.array([4, 1, 5, 3]))
    >>> round(result["perplexity"], 6), result["tokens"], result["unk_tokens"], round(result["bits_per_word"], 6)
    (8.0, 3, 1, 3.0)
    """
    total = unk = 0.0
    tokens = unk_tokens = 0
    for log_prob, target_ids in log_probs(model, ids, boundary):
        is_unk = target_ids == UNK_ID
        total += log_prob.sum(dtype=np.float64)
        unk += log_prob[is_unk].sum(dtype=np.float64)
        tokens, unk_tokens = tokens + len(log_prob), unk_tokens + int(is_unk.sum())
    if total == -math.inf:
        raise RunError(
            "The model gives a word of the text probability 0: mix it with the uniform distribution (`mix --uniform`), "
            "or is its boundary another one?"
        )
    if not math.isfinite(total):
        raise RunError(
            f"The log-probability of the text is {total}: the model's weights are not finite; train it again."
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


def shown_perplexity(perplexity: float | None) -> str:
    """A perplexity as tables show it, one over no tokens as a dash.

    Example:

    >>> shown_perplexity(61.368), shown_perplexity(None)
    ('61.37', '–')
    """
    return "–" if perplexity is None else f"{perplexity:.2f}"
