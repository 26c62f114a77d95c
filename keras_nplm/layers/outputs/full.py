"""Full softmax output: the logits of all words, in training too."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.options import check_option
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.linear import LinearOutput, append_held_out


@keras.saving.register_keras_serializable("keras_nplm")
class FullSoftmax(LinearOutput):
    """Full softmax over the vocabulary, exactly normalised in training too.

        y = b + [U W] [a; x],    P(w | context) = exp(y_w) / sum_i exp(y_i)

    Training minimises, for each target:

        loss = (1-ε) (-ln P(target)) + ε sum_w q(w) (-ln P(w)) + α (ln Z)²,    Z = sum_i exp(y_i)

    ε is `held_out_mass`, a label smoothing, and q a distribution over words that are rare in training (see
    `set_unigram`). Without it the likelihood drives the probability of words unseen in training to zero. With it their
    share stays about ε. α is `self_normalisation`: it keeps log Z near 0, so that a logit can serve as a
    log-probability (Devlin et al. 2014). Both are 0 by default. Neither enters a perplexity.

    The logits are computed in tiles of words, and [B, |V|] logits are never stored (see `linear_softmax`).

    Args:
        vocabulary_size: int, |V|.
        held_out_mass: float in [0, 1), ε. Before `set_unigram` is called q is uniform over all outputs.
        self_normalisation: float, α.
        weight_decay, rank, tied, shortlist_size, outside_output: see `LinearOutput`.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    options = ("held_out_mass", "self_normalisation")

    def __init__(
        self, vocabulary_size: int, held_out_mass: float = 0.0, self_normalisation: float = 0.0, **kwargs: Any
    ):
        check_option("held_out_mass", held_out_mass)
        super().__init__(vocabulary_size, **kwargs)
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        if self.held_out_mass:
            uniform = keras.initializers.Constant(1 / self.num_outputs)
            self.q = self.add_weight(name="q", shape=(self.num_outputs,), initializer=uniform, trainable=False)

    def training_loss(self, features: Tensor, output_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        output_ids, known = self.clip_ids(output_ids)
        q = ops.convert_to_tensor(self.q) if self.held_out_mass else None
        log_z, target_logit, q_logit = self.softmax(features, output_ids, self.compute_dtype, expected=q)
        loss = negative_log_likelihood = (log_z - target_logit) * known
        if self.held_out_mass:
            loss = (1 - self.held_out_mass) * loss + self.held_out_mass * (log_z - q_logit)
        if self.self_normalisation:
            loss += self.self_normalisation * ops.square(log_z)
        return loss, negative_log_likelihood

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        super().initialise_from_unigram(unigram, held_out)
        if self.held_out_mass:
            self.q.assign(held_out)

    def grow_from(self, smaller: "LinearOutput", kernel: Tensor, b: np.ndarray, frequencies: np.ndarray) -> None:
        super().grow_from(smaller, kernel, b, frequencies)
        if self.held_out_mass:
            self.q.assign(append_held_out(ops.convert_to_numpy(smaller.q), len(b)))
