"""Short-list: the network predicts the most frequent words, a background language model all the
others.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_nplm.data.boundary import find_targets
from keras_nplm.models.base import (
    CombinedModel,
    ModelFolder,
    NextWordModel,
    cut_contexts,
    saved_as,
)
from keras_nplm.models.ngrams.mass import build_mass

# the numbers of the parts
NETWORK = 0
BACKGROUND = 1


class NetworkWithBackground(CombinedModel):
    """Base class of a network and a background model over one vocabulary, which predict
    together.
    """

    def __init__(self, network: Any, background: NextWordModel):
        super().__init__([network, background])
        self.network = network
        self.background = background

    def with_parts(self, parts: Sequence[NextWordModel]) -> "NetworkWithBackground":
        network, background = parts
        return type(self)(network, background)

    @classmethod
    def read_files(cls, folder: ModelFolder) -> "NetworkWithBackground":
        return cls(folder.load_part(NETWORK), folder.load_part(BACKGROUND))


@saved_as("shortlist")
class Shortlist(NetworkWithBackground):
    """Language model of a network over a short-list of frequent words, and a background model for
    the other words.

        P(w | h) = P_N(w | h) P_S(h)                              for w in the list
        P(w | h) = P_B(w | h)                                     else
        P_S(h) = sum_{v in list} P_B(v | h)

    P_N is the network, P_B the background, which gives the mass of the list. The mass outside the
    list is 1 - P_S(h) = sum_{v not in list} P_B(v | h), so that the sums are 1 even where P_B's own
    sum is rounded.

    Args:
        network: a network whose head has `num_outputs`, the words of the list. It computes each
            distinct context once.
        background: any language model over the same vocabulary and with the same boundary. A model
            of a lower order gets the last words of a context. For a back-off model P_S is a
            look-up.

    Reference: Schwenk (2007), Continuous space language models, section 3.2.
    """

    description = (
        "A neural probabilistic language model with a short-list (Schwenk 2007) and a background "
        "model"
    )

    def __init__(self, network: Any, background: NextWordModel):
        super().__init__(network, background)
        self.listed = network.prob.num_outputs  # ids below this are in the list
        self.mass = build_mass(background, np.arange(self.vocabulary_size) >= self.listed)

    @property
    def learning_parts(self) -> Sequence[NextWordModel]:
        # of the background it sums distributions in advance: `mass`
        return [self.network]

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        is_listed = target_ids < self.listed
        result = np.zeros(len(target_ids))
        background_contexts = cut_contexts(self.background, context_ids[~is_listed])
        result[~is_listed] = self.background.log_prob(background_contexts, target_ids[~is_listed])
        # ln P_S(h)
        with np.errstate(divide="ignore"):
            outside = self.mass.look_up(cut_contexts(self.background, context_ids[is_listed]))
            log_share = np.log1p(-np.minimum(outside, 1))
        network_contexts = cut_contexts(self.network, context_ids[is_listed])
        of_network = self.network.output_log_prob(network_contexts, target_ids[is_listed])
        result[is_listed] = of_network.astype(np.float64) + log_share
        return result

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        background_contexts = cut_contexts(self.background, context_ids)
        of_background = self.background.next_log_probs(background_contexts).astype(np.float64)
        network_contexts = cut_contexts(self.network, context_ids)
        of_network = self.network.next_output_log_probs(network_contexts).astype(np.float64)
        outside = of_background[:, self.listed :]
        mass = np.minimum(np.exp(outside).sum(axis=1, keepdims=True), 1)
        with np.errstate(divide="ignore"):
            listed = of_network + np.log1p(-mass)
        return np.concatenate([listed, outside], axis=1)


def measure_coverage(ids: np.ndarray, listed: int, boundary: str = "sentence") -> float:
    """Return the coverage of a short-list: the share of the predicted tokens of a text with ids
    below `listed`.
    """
    targets = ids[find_targets(ids, boundary)]
    return float(np.mean(targets < listed))
