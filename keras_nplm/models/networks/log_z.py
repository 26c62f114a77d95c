"""LogZ: how far the logits of a network are from log-probabilities."""

import math

import numpy as np

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.collectors import Block, Collector
from keras_nplm.models.networks.arrays import refuse_network
from keras_nplm.models.networks.context_network import ContextNetwork


class LogZ(Collector):
    """Collects mean, standard deviation and mean absolute value of ln Z of a network.

        ln Z = y_target - ln P(target | context)

    A network that is trained to be self-normalised has ln Z near 0.
    """

    def start(self, model: NextWordModel) -> None:
        # a network with an n-gram model inside has its logits from a Hybrid
        if not isinstance(model, ContextNetwork) or model.reads_log_q:
            raise refuse_network(type(model).__name__)
        self._network = model
        self._moments = np.zeros(4)

    def add(self, block: Block) -> None:
        logits = self._network.output_logits(block.contexts, block.targets)
        log_z = logits.astype(np.float64) - block.log_prob
        with np.errstate(invalid="ignore"):  # infinite log-probabilities are refused elsewhere
            self._moments += [len(log_z), log_z.sum(), log_z @ log_z, np.abs(log_z).sum()]

    def compute_figures(self) -> dict[str, dict[str, float]]:
        _, mean, square, absolute = (self._moments / self._moments[0]).tolist()
        deviation = math.sqrt(max(square - mean**2, 0.0))
        moments = {"mean": mean, "standard_deviation": deviation, "mean_absolute": absolute}
        return {"ln_z": moments}
