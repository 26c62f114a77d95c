"""Exact perplexity of a text under any model with `log_prob(context_ids, target_ids)`."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from keras_nplm.data.ids import UNK_ID, convert_ids
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.io.errors import RunError
from keras_nplm.models.base import NextWordModel, resolve_boundary, row_blocks

_BLOCK_SIZE = 1 << 16  # n-grams in a call of `log_prob`
_BLOCK_IDS = 1 << 22  # ids of these n-grams: a cache has hundreds of words of context
_PART_SIZE = 1 << 20  # ids of an array that are arranged as n-grams at a time


def log_probs(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the log-probability of every n-gram of a text, in the order of the text, in blocks."""
    for ngrams in iterate_ngrams(model, ids, boundary):
        yield model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1]


def iterate_ngrams(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None
) -> Iterator[np.ndarray]:
    """Iterate over the n-grams of a text, in blocks."""
    if not isinstance(ids, Iterator):
        whole = convert_ids(ids)
        ids = (whole[part] for part in row_blocks(len(whole), _PART_SIZE))
    size = min(_BLOCK_SIZE, max(1, _BLOCK_IDS // model.order))
    return ngram_blocks(ids, model.order, resolve_boundary([model], boundary) or "sentence", size)


def evaluate(
    model: NextWordModel, ids: np.ndarray | Iterator[np.ndarray], boundary: str | None = None
) -> dict[str, float | int | None]:
    """Return the perplexity of a text, summed in float64.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model; `order` and `log_prob` suffice.
        ids: int32 [T], each sentence closed by `</s>`; or an iterator over parts of them, for a
            text larger than memory. The figures do not depend on where the text is cut.
        boundary: `"sentence"`: contexts end at the sentence's start, and words and `</s>` are
            predicted. `"text"`: contexts cross sentence ends, and words and `</s>` are predicted.
            `"stream"`: contexts cross sentence ends, and only words are predicted. Perplexities of
            different boundaries are not comparable. Default: `model.boundary`, or `"sentence"` for
            a model without one.

    Returns:
        dict: `perplexity` over all predicted tokens, out-of-vocabulary tokens counted as the word
        `<unk>`; `perplexity_without_unk` over the predicted tokens other than `<unk>`; `tokens` and
        `unk_tokens`, their numbers; `log_prob`, the sum in nats; `bits_per_word`, bits per token. A
        perplexity over 0 tokens is None.

    Raises:
        InputError: the text has no word to predict, or `boundary` differs from the model's.
        RunError: a word of the text has probability 0, or a log-probability is NaN.

    Example:

    >>> class UniformOverEight:
    ...     order = 2
    ...     def log_prob(self, context_ids, target_ids):
    ...         return np.full(len(target_ids), -np.log(8))
    >>> result = evaluate(UniformOverEight(), np.array([4, 1, 5, 3]))
    >>> numbers = result["tokens"], result["unk_tokens"]
    >>> round(result["perplexity"], 6), *numbers, round(result["bits_per_word"], 6)
    (8.0, 4, 1, 3.0)
    """
    return evaluate_each([model], ids, boundary)[0]


def evaluate_each(
    models: Sequence[NextWordModel],
    ids: np.ndarray | Iterator[np.ndarray],
    boundary: str | None = None,
) -> list[dict]:
    """Return the figures of `evaluate` for each model, in one pass: a model, and its copy that
    learns as it reads.
    """
    sums = [LogProbSums(type(model).__name__) for model in models]
    for ngrams in iterate_ngrams(models[0], ids, boundary):
        for model, each in zip(models, sums, strict=True):
            each.add(model.log_prob(ngrams[:, :-1], ngrams[:, -1]), ngrams[:, -1])
    return [each.compute_figures() for each in sums]


class LogProbSums:
    """Sums of log-probabilities, in float64, and the figures of `evaluate` from them."""

    def __init__(self, name: str):
        self._name = name
        self._total = self._unk = 0.0
        self._tokens = self._unk_tokens = 0

    def add(self, log_prob: np.ndarray, target_ids: np.ndarray) -> None:
        is_unk = target_ids == UNK_ID
        self._total += log_prob.sum(dtype=np.float64)
        self._unk += log_prob[is_unk].sum(dtype=np.float64)
        self._tokens += len(log_prob)
        self._unk_tokens += int(is_unk.sum())

    def compute_figures(self) -> dict[str, float | int | None]:
        total = self._total
        known = self._tokens - self._unk_tokens
        if total == -math.inf:
            words = "a word of the text"
            fix = "evaluate it with the boundary of its training."
            if self._unk == -math.inf:
                words = "words outside its vocabulary"
                fix = "leave such words out of the text."
            mix = "mix the model with the uniform distribution (`mix --uniform`)"
            raise RunError(f"{self._name} gives {words} probability 0. Fix: {mix}, or {fix}")
        if not math.isfinite(total):
            fix = (
                "use a smaller rate of training or of dynamic evaluation (delete "
                "`dynamic.json` "
                "to tune it again)."
            )
            message = (
                f"The log-probability of the text under {self._name} must be "
                "finite. "
                f"Received: {total}."
            )
            raise RunError(f"{message} Fix: {fix}")
        return {
            "perplexity": compute_exp(-total / self._tokens),
            "perplexity_without_unk": compute_exp((self._unk - total) / known) if known else None,
            "tokens": self._tokens,
            "unk_tokens": self._unk_tokens,
            "log_prob": float(total),
            "bits_per_word": float(-total / self._tokens / math.log(2)),
        }


def compute_exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def format_perplexity(perplexity: float | None, digits: int = 2) -> str:
    """Format a perplexity for a table, with a dash in place of None."""
    return "–" if perplexity is None else f"{perplexity:.{digits}f}"
