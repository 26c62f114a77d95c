"""Dynamic mixture: interpolation weights that follow the text, by online
expectation-maximisation.
"""

import numpy as np

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.ngrams.interpolation import combine


class DynamicMixture(NextWordModel):
    """Dynamic evaluation of a mixture: predict a chunk of the text, move the weights, go on.

        P_c(w | h) = sum_k α_ck P_k(w | h),    r_tk = α_ck P_k(w_t | h_t) / P_c(w_t | h_t)
        α_{c+1} = α_c + ρ 1/B sum_{t in chunk c} (r_t - α_c)

    ρ is `rate`, B is `chunk`. Each n-gram moves the weights of its bin. See `DynamicNPLM` for what
    `log_prob` reads.

    Reference: Neal & Hinton (1998), A view of the EM algorithm that justifies incremental variants.
    """

    def __init__(self, mixture: Mixture, chunk: int, rate: float):
        self.mixture = mixture
        self.parts = mixture.parts
        self.chunk = chunk
        self.rate = rate
        self.order = mixture.order
        self.vocabulary_size = mixture.vocabulary_size
        self.boundary = mixture.boundary
        self.reset()

    @property
    def weights(self) -> np.ndarray:
        """The weights after the text so far, float64 [bins, K]."""
        return self._weights.weights

    def reset(self) -> None:
        """Go back to the weights of the mixture, and to the start of a text."""
        super().reset()
        self._weights = FollowingWeights(self.mixture.weights, self.chunk, self.rate)

    def learn_rest(self) -> None:
        """Move the weights by the n-grams of a chunk that is not whole, and let the models learn
        from theirs.
        """
        super().learn_rest()
        self._weights.move()

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        bins = self.mixture.find_bins(context_ids)
        log_probs = self.mixture.part_log_probs(context_ids, target_ids)
        return self._weights.combine(log_probs, bins)


class FollowingWeights:
    """Interpolation weights that follow a text; see `DynamicMixture`."""

    def __init__(self, weights: np.ndarray, chunk: int, rate: float):
        self.weights = weights.copy()
        self._chunk = chunk
        self._rate = rate
        self._moves = np.zeros_like(self.weights)  # sum of r - α over a chunk that is not whole yet
        self._held = 0  # n-grams of the chunk so far

    def combine(self, log_probs: np.ndarray, bins: np.ndarray) -> np.ndarray:
        """Return ln P of the next n-grams of the text, float64 [T], from ln P_k [T, K] and their
        bins int [T].
        """
        result = np.empty(len(log_probs))
        start = 0
        while start < len(result):
            rows = slice(start, start + self._chunk - self._held)
            weights = self.weights[bins[rows]]
            result[rows] = combine(log_probs[rows], weights)
            # a word with probability 0 in every model tells nothing of the weights
            possible = np.isfinite(result[rows])
            odds = log_probs[rows][possible] - result[rows][possible, None]
            moves = weights[possible] * (np.exp(odds) - 1)
            np.add.at(self._moves, bins[rows][possible], moves)
            self._held += len(weights)
            if self._held == self._chunk:
                self.move()
            start = rows.stop
        return result

    def move(self) -> None:
        """Move the weights by the n-grams since the last move."""
        self.weights += self._rate / self._chunk * self._moves
        self._moves[:] = 0
        self._held = 0
