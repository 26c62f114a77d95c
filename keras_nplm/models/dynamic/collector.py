"""Dynamic: the perplexity of a copy that learns, beside that of the model, in one pass."""

import dataclasses
from typing import Any

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.collectors import Block, Collector, Perplexity
from keras_nplm.models.dynamic.settings import DynamicSettings


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
