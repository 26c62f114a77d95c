"""What `evaluate` measures beside the perplexity: accuracy, figures by order, a learning copy."""

import dataclasses
from typing import Any

import numpy as np

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.dynamic.settings import DynamicSettings
from keras_nplm.models.evaluation import Block, Collector, Perplexity, compute_exp


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
        self._hits += int((block.best_ids == block.targets).sum())
        self._tokens += len(block.targets)

    def compute_figures(self) -> dict[str, float]:
        return {"accuracy": self._hits / self._tokens}


class PerplexityByOrder(Collector):
    """Collects tokens and perplexity by the order of the n-gram that each probability is of.

    For an n-gram model it is the longest listed n-gram; for a network all words of the context
    count, so that orders below n are at the beginnings of texts. See `NextWordModel.find_orders`.
    """

    def start(self, model: NextWordModel) -> None:
        self._log_prob = np.zeros(model.order + 1)
        self._tokens = np.zeros(model.order + 1, np.int64)

    def add(self, block: Block) -> None:
        size = len(self._tokens)
        self._log_prob += np.bincount(block.orders, block.log_prob, size)
        self._tokens += np.bincount(block.orders, minlength=size)

    def compute_figures(self) -> dict[str, list[dict]]:
        rows = []
        for order in np.flatnonzero(self._tokens).tolist():
            tokens = int(self._tokens[order])
            perplexity = compute_exp(-self._log_prob[order] / tokens)
            rows.append({"order": order, "tokens": tokens, "perplexity": perplexity})
        return {"orders": rows}


class Dynamic(Collector):
    """Collects the perplexity of a copy of the model that learns from the text as it reads."""

    def __init__(self, learner: NextWordModel, settings: DynamicSettings):
        self._learner = learner
        self._settings = settings
        self._perplexity = Perplexity()

    def start(self, model: NextWordModel) -> None:
        self._perplexity.start(self._learner)

    def add(self, block: Block) -> None:
        log_prob = self._learner.log_prob(block.contexts, block.targets)
        self._perplexity.add_log_prob(log_prob, block.targets)

    def compute_figures(self) -> dict[str, dict[str, Any]]:
        figures = self._perplexity.compute_figures()
        return {"dynamic": {**figures, "settings": dataclasses.asdict(self._settings)}}
