"""The full softmax: every word's logit is computed, in training too."""

import keras
from keras import ops

from keras_nplm.layers.ops import linear_softmax
from keras_nplm.layers.outputs.base import LinearOutput, check_share, with_new_words


@keras.saving.register_keras_serializable("keras_nplm")
class FullSoftmax(LinearOutput):
    """The full, exactly normalised softmax over the vocabulary.

        y = b + [U W] [a; x],    P(w | context) = exp(y_w) / sum_i exp(y_i)

    What training minimises, for each target:

        loss = (1-ε) (-ln P(target)) + ε sum_w q(w) (-ln P(w)) + α (ln Z)²,    Z = sum_i exp(y_i)

    ε is `held_out_mass` and q a distribution over words that the training text lacks (see `set_unigram`). The
    likelihood alone drives the probability of words that training never shows to zero, whatever the context; with ε
    their share stays about ε. α is `self_normalisation`: it keeps ln Z near 0, so that y alone will do as ln P (Devlin
    et al. 2014). Both are 0 by default, and no part of them enters a perplexity.

    Args:
        vocabulary_size: int, |V|.
        held_out_mass: float in [0, 1), ε; q is uniform over all words before `set_unigram` is called.
        self_normalisation: float, α.
        weight_decay: float, the paper's weight decay on U and W; b has none.

    Call arguments:
        features: float [B, h + (n-1) m].

    Returns:
        logits y, float [B, |V|].

    Example:

    >>> import numpy as np
    >>> output = FullSoftmax(vocabulary_size=7)
    >>> features = np.ones((2, 3), "float32")
    >>> float(ops.sum(ops.exp(output.log_probs(features)[0]))).__round__(5)
    1.0
    >>> loss, negative_log_likelihood = output.training_loss(features, np.array([4, 5]))
    >>> bool(ops.all(loss == negative_log_likelihood))
    True

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        held_out_mass: float = 0.0,
        self_normalisation: float = 0.0,
        weight_decay: float = 0.0,
        **kwargs,
    ):
        check_share(held_out_mass)
        super().__init__(vocabulary_size, weight_decay, **kwargs)
        self.held_out_mass = held_out_mass
        self.self_normalisation = self_normalisation

    def build(self, input_shape):
        super().build(input_shape)
        if self.held_out_mass:
            self.q = self.add_weight(
                name="q",
                shape=(self.vocabulary_size,),
                initializer=keras.initializers.Constant(1 / self.vocabulary_size),
                trainable=False,
                autocast=False,
            )

    def training_loss(self, features, target_ids):
        target_ids, known = self.in_vocabulary(target_ids)
        q = ops.convert_to_tensor(self.q) if self.held_out_mass else None
        log_z, target_logit, q_logit = linear_softmax(
            features, self.kernel, self.b, target_ids, self.compute_dtype, expected=q
        )
        negative_log_likelihood = (log_z - target_logit) * known
        return self._loss(negative_log_likelihood, log_z, q_logit), negative_log_likelihood

    def training_loss_of_logits(self, logits, target_ids):
        negative_log_likelihood, log_z = self.negative_log_likelihood(logits, target_ids)
        q_logit = ops.matmul(logits, self.q) if self.held_out_mass else 0.0
        return self._loss(negative_log_likelihood, log_z, q_logit), negative_log_likelihood

    def _loss(self, negative_log_likelihood, log_z, q_logit):
        loss = negative_log_likelihood
        if self.held_out_mass:
            loss = (1 - self.held_out_mass) * loss + self.held_out_mass * (log_z - q_logit)
        if self.self_normalisation:
            loss += self.self_normalisation * ops.square(log_z)
        return loss

    def start_at(self, unigram, lacking):
        super().start_at(unigram, lacking)
        if self.held_out_mass:
            self.q.assign(lacking)

    def grow_from(self, smaller, kernel, b, frequencies):
        super().grow_from(smaller, kernel, b, frequencies)
        if self.held_out_mass:
            self.q.assign(with_new_words(ops.convert_to_numpy(smaller.q), len(b)))

    def get_config(self):
        return super().get_config() | {
            "held_out_mass": self.held_out_mass,
            "self_normalisation": self.self_normalisation,
        }
