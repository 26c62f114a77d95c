"""Dynamic: the perplexity of a copy that learns, beside that of the model, in one pass."""

import dataclasses
from typing import Any

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.collectors import Block, Collector, Perplexity
from keras_nplm.models.dynamic.settings import DynamicSettings, add_static


class Dynamic(Collector):
    """Collects the perplexity of a copy of the model that learns from the text as it reads.

    Args:
        learner: the copy.
        settings: how the copy learns, stored beside the figures.
        share: the share of the model in the probabilities, unless it is the learner that adds it.
    """

    def __init__(self, learner: NextWordModel, settings: DynamicSettings, share: float):
        self._learner = learner
        self._settings = settings
        self._share = share
        self._perplexity = Perplexity()

    def start(self, model: NextWordModel) -> None:
        self._perplexity.start(self._learner)

    def add(self, block: Block) -> None:
        log_prob = self._learner.log_prob(block.contexts, block.targets)
        if self._share:
            log_prob = add_static(log_prob, block.log_prob, self._share)
        self._perplexity.add_log_prob(log_prob, block.targets)

    def compute_figures(self) -> dict[str, dict[str, Any]]:
        figures = self._perplexity.compute_figures()
        return {"dynamic": {**figures, "settings": dataclasses.asdict(self._settings)}}
