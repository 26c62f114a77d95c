"""Settings of dynamic evaluation: chunk, step size, and how fast biases and mixtures move."""

import dataclasses

import numpy as np

from keras_nplm.io.errors import check_integer, check_least, check_share

# the least RMS that a gradient is divided by, as a share of the mean RMS
EPSILON = 1.0
EPSILON_BIASES = 0.1  # the same for the biases of the output


@dataclasses.dataclass(frozen=True)
class DynamicSettings:
    """Settings of dynamic evaluation; `tune_dynamic` finds them on validation text.

    Args:
        chunk: int, B, n-grams that are predicted before a step is taken on them.
        rate: float, η, the step size. 0 leaves the weights of networks as they are.
        biases: float, factor of the rate for the biases of the output layer.
        static_share: float in [0, 1), σ, share of the trained network, which takes no steps, in the
            probabilities. A copy that follows the text in large steps forgets some of the training
            text; the trained network does not.
        mixture_rate: float in [0, 1), ρ, how fast the weights of a mixture follow the text.
    """

    chunk: int = 32
    rate: float = 0.1
    biases: float = 1.0
    static_share: float = 0.0
    mixture_rate: float = 0.0

    def __post_init__(self) -> None:
        check_integer("chunk", self.chunk, 1)
        check_least("rate", self.rate, 0.0)
        check_share("static_share", self.static_share)
        check_share("mixture_rate", self.mixture_rate)

    @property
    def learns(self) -> bool:
        """Whether anything follows the text. If not, dynamic and static figures are equal."""
        return self.rate > 0 or self.mixture_rate > 0

    def __str__(self) -> str:
        if not self.learns:
            return "no steps"
        parts = [f"chunks of {self.chunk}"]
        if self.rate:
            parts.append(f"rate {self.rate:.3g}")
            if self.biases != 1:
                parts.append(f"biases {self.biases:.3g} times")
            if self.static_share:
                parts.append(f"static share {self.static_share:.3g}")
        if self.mixture_rate:
            parts.append(f"mixture rate {self.mixture_rate:.3g}")
        return ", ".join(parts)


def add_static(log_probs: np.ndarray, static_log_probs: np.ndarray, share: float) -> np.ndarray:
    """Return ln P of n-grams from those of a copy that learns and of the trained network, which has
    a share of P.
    """
    of_copy = log_probs + np.log1p(-share)
    with np.errstate(divide="ignore", invalid="ignore"):  # a share of 0; weights that diverge
        of_trained = static_log_probs + np.log(share)
        return np.logaddexp(of_copy, of_trained).astype(log_probs.dtype)
