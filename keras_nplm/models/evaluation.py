"""Figures of a text under a language model: the pass over its n-grams, and the perplexity."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import UNK_ID, convert_ids, find_distinct_rows
from keras_nplm.data.ngram_arrays import ngram_blocks
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.models.base import DISTRIBUTION_ROWS, NextWordModel, resolve_boundary, row_blocks

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


class Block:
    """Consecutive n-grams of a text, and what a model says of them, each computed once.

    Attributes:
        model: the language model.
        contexts: int32 [B, n-1].
        targets: int32 [B].
    """

    def __init__(self, model: NextWordModel, ngrams: np.ndarray):
        self.model = model
        self.contexts = ngrams[:, :-1]
        self.targets = ngrams[:, -1]

    @functools.cached_property
    def log_prob(self) -> np.ndarray:
        """ln P(target | context), float [B]."""
        return self.model.log_prob(self.contexts, self.targets)

    @functools.cached_property
    def orders(self) -> np.ndarray:
        """The order of the n-gram that each probability is of, int [B]; see `find_orders`."""
        return self.model.find_orders(self.contexts, self.targets)

    @functools.cached_property
    def best_ids(self) -> np.ndarray:
        """The most probable word after each context, int [B]; the first of equal ones."""
        contexts, which = find_distinct_rows(self.contexts)
        best = np.empty(len(contexts), np.int64)
        for rows in row_blocks(len(contexts), DISTRIBUTION_ROWS):
            best[rows] = self.model.next_log_probs(contexts[rows]).argmax(axis=1)
        return best[which]


class Collector:
    """Base class of what `evaluate` measures: it receives the blocks of a text, one after another.

    A subclass asks a block for what it needs, such as `block.log_prob` or `block.best_ids`, and
    keeps sums. Example: the share of the n-grams with a probability above 1/2.

    >>> class Confidence(Collector):
    ...     def start(self, model):
    ...         self.sure = 0
    ...         self.tokens = 0
    ...     def add(self, block):
    ...         self.sure += int((block.log_prob > np.log(0.5)).sum())
    ...         self.tokens += len(block.targets)
    ...     def compute_figures(self):
    ...         return {"confidence": self.sure / self.tokens}
    >>> from keras_nplm import Uniform
    >>> evaluate(Uniform(8), np.array([4, 1, 5, 3]), [Confidence()])
    {'confidence': 0.0}
    """

    def start(self, model: NextWordModel) -> None:
        """Forget the text before, and refuse a model that has not what is measured."""

    def add(self, block: Block) -> None:
        """Add consecutive n-grams."""
        raise NotImplementedError

    def compute_figures(self) -> dict[str, Any]:
        """Return the figures of the n-grams so far, by name."""
        raise NotImplementedError


class Perplexity(Collector):
    """Collects the exact perplexity, summed in float64: the figures of `evaluate`."""

    def start(self, model: NextWordModel) -> None:
        self._name = type(model).__name__
        self._total = 0.0
        self._unk = 0.0
        self._tokens = 0
        self._unk_tokens = 0

    def add(self, block: Block) -> None:
        self.add_log_prob(block.log_prob, block.targets)

    def add_log_prob(self, log_prob: np.ndarray, target_ids: np.ndarray) -> None:
        """Add ln P of n-grams, float [B], with their targets, int [B]."""
        is_unk = target_ids == UNK_ID
        self._total += log_prob.sum(dtype=np.float64)
        self._unk += log_prob[is_unk].sum(dtype=np.float64)
        self._tokens += len(log_prob)
        self._unk_tokens += int(is_unk.sum())

    def compute_figures(self) -> dict[str, float | int | None]:
        self._check_finite()
        total = self._total
        known = self._tokens - self._unk_tokens
        return {
            "perplexity": compute_exp(-total / self._tokens),
            "perplexity_without_unk": compute_exp((self._unk - total) / known) if known else None,
            "tokens": self._tokens,
            "unk_tokens": self._unk_tokens,
            "log_prob": float(total),
            "bits_per_word": float(-total / self._tokens / math.log(2)),
        }

    def _check_finite(self) -> None:
        if self._total == -math.inf:
            words = "a word of the text"
            fix = "evaluate it with the boundary of its training."
            if self._unk == -math.inf:
                words = "words outside its vocabulary"
                fix = "leave such words out of the text."
            mix = "mix the model with the uniform distribution (`mix --uniform`)"
            raise RunError(f"{self._name} gives {words} probability 0. Fix: {mix}, or {fix}")
        if not math.isfinite(self._total):
            raise RunError(
                f"The log-probability of the text under {self._name} must be finite. "
                f"Received: {self._total}. Fix: use a smaller rate of training or of dynamic "
                "evaluation (delete `dynamic.json` to tune it again)."
            )


def evaluate(
    model: NextWordModel,
    ids: np.ndarray | Iterator[np.ndarray],
    collectors: Sequence[Collector] | None = None,
    boundary: str | None = None,
) -> dict[str, Any]:
    """Return the perplexity of a text, summed in float64, or other figures of it, in one pass.

        perplexity = exp(-1/T sum_t ln P(w_t | context))

    Args:
        model: any language model; `order` and `log_prob` suffice for the perplexity.
        ids: int32 [T], each sentence closed by `</s>`; or an iterator over parts of them, for a
            text larger than memory. The figures do not depend on where the text is cut.
        collectors: what is measured, such as `Perplexity()`, and those of
            `keras_nplm.models.collectors`: `Accuracy()`, `PerplexityByOrder()`; and `LogZ()` of
            `keras_nplm.models.networks.log_z`. Default: `[Perplexity()]`.
        boundary: `"sentence"`: contexts end at the sentence's start, and words and `</s>` are
            predicted. `"text"`: contexts cross sentence ends, and words and `</s>` are predicted.
            `"stream"`: contexts cross sentence ends, and only words are predicted. Perplexities of
            different boundaries are not comparable. Default: `model.boundary`, or `"sentence"` for
            a model without one.

    Returns:
        dict: the figures of all collectors. Those of `Perplexity`: `perplexity` over all predicted
        tokens, out-of-vocabulary tokens counted as the word `<unk>`; `perplexity_without_unk` over
        the predicted tokens other than `<unk>`; `tokens` and `unk_tokens`, their numbers;
        `log_prob`, the sum in nats; `bits_per_word`, bits per token. A perplexity over 0 tokens is
        None.

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
    if collectors is None:
        collectors = [Perplexity()]
    for collector in collectors:
        if not isinstance(collector, Collector):
            raise InputError(
                f"`collectors` must be a list of collectors. Received: {collectors!r:.80}. "
                "Fix: name the boundary, `boundary=…`, or pass `[Perplexity()]`."
            )
        collector.start(model)
    for ngrams in iterate_ngrams(model, ids, boundary):
        block = Block(model, ngrams)
        for collector in collectors:
            collector.add(block)
    figures: dict[str, Any] = {}
    for collector in collectors:
        figures.update(collector.compute_figures())
    return figures


def compute_exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def format_perplexity(perplexity: float | None, digits: int = 2) -> str:
    """Format a perplexity for a table, with a dash in place of None."""
    return "–" if perplexity is None else f"{perplexity:.{digits}f}"
