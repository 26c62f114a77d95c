"""What `evaluate` measures in a text: perplexity, accuracy, figures by order."""

import functools
import math
from typing import Any

import numpy as np

from keras_nplm.data.ids import UNK_ID, find_distinct_rows
from keras_nplm.io.errors import RunError
from keras_nplm.models.base import NextWordModel, count_distribution_rows, row_blocks


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


class Collector:
    """Base class of the measures of `evaluate`: it receives the blocks of a text, one by one.

    A subclass keeps sums of what it needs: `add` asks a block for `block.log_prob` or
    `block.orders`, which are computed once for all collectors, or `block.model` for distributions.
    Example: the share of the n-grams with a probability above 1/2.

    >>> class Confidence(Collector):
    ...     def start(self, model):
    ...         self.sure = 0
    ...         self.tokens = 0
    ...     def add(self, block):
    ...         self.sure += int((block.log_prob > np.log(0.5)).sum())
    ...         self.tokens += len(block.targets)
    ...     def compute_figures(self):
    ...         return {"confidence": self.sure / self.tokens}
    >>> from keras_nplm import Uniform, evaluate
    >>> evaluate(Uniform(8), np.array([4, 1, 5, 3]), [Confidence()])
    {'confidence': 0.0}
    """

    def start(self, model: NextWordModel) -> None:
        """Forget the text before, and refuse a model that cannot be measured."""

    def add(self, block: Block) -> None:
        """Add consecutive n-grams."""

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
        unk_alone = self._unk == -math.inf
        check_finite(self._name, self._total, of_unk=unk_alone)
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


class Accuracy(Collector):
    """Collects the top-1 accuracy: the share of the predicted tokens that were the most probable.

    It computes the distribution of each context, which takes more time than the perplexity.

    >>> from keras_nplm import evaluate, kneser_ney
    >>> model = kneser_ney(np.array([4, 5, 3] * 9 + [5, 4, 3]), 6, order=2)
    >>> evaluate(model, np.array([4, 5, 3, 5]), [Accuracy()])
    {'accuracy': 0.75}
    """

    def start(self, model: NextWordModel) -> None:
        self._hits = 0
        self._tokens = 0

    def add(self, block: Block) -> None:
        contexts, which = find_distinct_rows(block.contexts)
        best = np.empty(len(contexts), np.int64)  # the first of equally probable words
        for rows in row_blocks(len(contexts), count_distribution_rows(block.model.vocabulary_size)):
            best[rows] = block.model.next_log_probs(contexts[rows]).argmax(axis=1)
        self._hits += int((best[which] == block.targets).sum())
        self._tokens += len(block.targets)

    def compute_figures(self) -> dict[str, float]:
        return {"accuracy": self._hits / self._tokens}


class PerplexityByOrder(Collector):
    """Collects tokens and perplexity by the order of the n-gram that each probability is of.

    For a back-off model, alone or as a part, it is the longest listed n-gram. For other models all
    words of the context count, so that orders below n are at the beginnings of texts. See
    `NextWordModel.find_orders`.
    """

    def start(self, model: NextWordModel) -> None:
        self._name = type(model).__name__
        self._log_prob = np.zeros(model.order + 1)
        self._tokens = np.zeros(model.order + 1, np.int64)

    def add(self, block: Block) -> None:
        size = len(self._tokens)
        self._log_prob += np.bincount(block.orders, block.log_prob, size)
        self._tokens += np.bincount(block.orders, minlength=size)

    def compute_figures(self) -> dict[str, list[dict]]:
        check_finite(self._name, float(self._log_prob.sum()))
        rows = []
        for order in np.flatnonzero(self._tokens).tolist():
            tokens = int(self._tokens[order])
            perplexity = compute_exp(-self._log_prob[order] / tokens)
            rows.append({"order": order, "tokens": tokens, "perplexity": perplexity})
        return {"orders": rows}


def check_finite(name: str, log_prob: float, of_unk: bool = False) -> None:
    """Refuse a sum of ln P that is not finite; `of_unk`: that of `<unk>` alone is not."""
    if log_prob == -math.inf:
        words = "a word of the text"
        fix = "evaluate it with the boundary of its training."
        if of_unk:
            words = "words outside its vocabulary"
            fix = "leave such words out of the text."
        mix = "mix the model with the uniform distribution (`mix --uniform`)"
        raise RunError(f"{name} gives {words} probability 0. Fix: {mix}, or {fix}")
    if not math.isfinite(log_prob):
        raise RunError(
            f"The log-probability of the text under {name} must be finite. "
            f"Received: {log_prob}. Fix: use a smaller rate of training or of dynamic "
            "evaluation (delete `dynamic.json` to tune it again)."
        )


def compute_exp(x: float) -> float:
    """Return exp(x); infinity from e**700 on, and for NaN."""
    return math.exp(x) if x < 700 else math.inf
