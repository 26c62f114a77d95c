"""Likelihood: the objective of the paper, with label smoothing towards rare words and log Z
near 0.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import check_share
from keras_nplm.layers.objectives.base import Losses, Objective, append_held_out
from keras_nplm.layers.ops import NewRows, Tensor
from keras_nplm.layers.scores import Scores


@keras.saving.register_keras_serializable("keras_nplm")
class Likelihood(Objective):
    """Negative log-likelihood of the target, exactly normalised.

        loss = (1-ε) (-ln P(target)) + ε sum_w q(w) (-ln P(w)) + α (ln Z)²,    Z = sum_i exp(y_i)

    ε is `held_out_mass`, a label smoothing, and q a distribution over words that are rare in
    training (see `smooth_unigram`). Without it the likelihood drives the probability of words
    unseen in training to zero. With it their share stays about ε. α is `self_normalisation`: it
    keeps log Z near 0, so that a logit can serve as a log-probability (Devlin et al. 2014). Both
    are 0 by default, as in the paper. Neither enters a perplexity.

    Args:
        held_out_mass: float in [0, 1), ε. Before `set_unigram` is called q is uniform.
        self_normalisation: float, α.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 2.
    """

    options = ("held_out_mass", "self_normalisation")

    def __init__(self, held_out_mass: float = 0.0, self_normalisation: float = 0.0, **kwargs: Any):
        check_share("held_out_mass", held_out_mass)
        super().__init__(**kwargs)
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation

    def build(self, scores_shape: tuple) -> None:
        if self.held_out_mass:
            num_outputs = scores_shape[-1]
            uniform = keras.initializers.Constant(1 / num_outputs)
            self.q = self.add_weight(name="q", shape=(num_outputs,), initializer=uniform)

    def losses(self, scores: Scores, target_ids: Tensor) -> Losses:
        log_z, logit = scores.for_training(target_ids)
        negative_log_likelihood = log_z - logit
        loss = negative_log_likelihood
        if self.held_out_mass:
            smoothing = log_z - scores.expected_logit(ops.convert_to_tensor(self.q))
            loss = (1 - self.held_out_mass) * loss + self.held_out_mass * smoothing
        if self.self_normalisation:
            loss += self.self_normalisation * ops.square(log_z)
        return Losses(loss, negative_log_likelihood)

    def set_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        if self.held_out_mass:
            self.q.assign(held_out)

    def grow_from(self, smaller: "Likelihood", rows: NewRows) -> None:
        if self.held_out_mass:
            self.q.assign(append_held_out(ops.convert_to_numpy(smaller.q), len(rows.b)))
