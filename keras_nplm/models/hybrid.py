"""Hybrid: a network that has the log-probabilities of an n-gram model inside, as one language
model.
"""

from collections.abc import Sequence

import numpy as np

from keras_nplm.models.base import NextWordModel, cut_contexts, saved_as
from keras_nplm.models.shortlist import NetworkWithBackground


@saved_as("hybrid")
class Hybrid(NetworkWithBackground):
    """Language model of a network and an n-gram model inside it.

        P(w | h) = exp(y_w) / sum_i exp(y_i),    y = b + [U W] [a; x] + (g + v · [a; x]) ln Q(· | h)

    Args:
        network: a `HybridNetwork`, trained on the log-probabilities of a jackknife; see
            `keras_nplm.models.jackknife`.
        background: Q, any language model over the same vocabulary and with the same boundary, of
            the whole training text. A model of a lower order gets the last words of a context.

    Reference: see `HybridNetwork`.
    """

    description = (
        "A neural probabilistic language model with an n-gram model inside (Neubig & Dyer 2016)"
    )

    @property
    def learning_parts(self) -> Sequence[NextWordModel]:
        # the network's input is the distribution of the background
        return []

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        background_contexts = cut_contexts(self.background, context_ids)
        log_q = self.background.next_log_probs(background_contexts).astype(np.float32)
        network_contexts = cut_contexts(self.network, context_ids)
        return self.network.next_log_probs_with(network_contexts, log_q)
