"""Output layers: what turns features into P(w | context)."""

import keras
import numpy as np
from keras import ops

from keras_nplm.errors import InputError
from keras_nplm.layers import penalty
from keras_nplm.vocabulary import EOS_ID, UNK_ID

_NEVER = 1e-12  # the probability of an id that is never a target


@keras.saving.register_keras_serializable("keras_nplm")
class FullSoftmax(keras.layers.Layer):
    """The full, exactly normalised softmax over the vocabulary.

        y = b + [U W] [a; x],    P(w | context) = exp(y_w) / sum_i exp(y_i)

    The kernel [U W] is kept a row a word, [|V|, h + (n-1) m], as in the paper.

    Args:
        vocabulary_size: int, |V|.
        held_out_mass: float in [0, 1), ε of `loss`: the probability that training reserves for words of the vocabulary
            that the training text lacks (see `set_unigram`; uniform over all words before it is called).
        weight_decay: float, the paper's weight decay on U and W; b has none.

    Call arguments:
        features: float [B, h + (n-1) m].

    Returns:
        logits y, float [B, |V|].

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    def __init__(self, vocabulary_size: int, held_out_mass: float = 0.0, weight_decay: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.held_out_mass = held_out_mass
        self.weight_decay = weight_decay

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="UW",
            shape=(self.vocabulary_size, input_shape[-1]),
            initializer="glorot_uniform",
            regularizer=penalty(self.weight_decay),
        )
        self.b = self.add_weight(name="b", shape=(self.vocabulary_size,), initializer="zeros")
        if self.held_out_mass:
            self.q = self.add_weight(
                name="q",
                shape=(self.vocabulary_size,),
                initializer=keras.initializers.Constant(1 / self.vocabulary_size),
                trainable=False,
            )

    def call(self, features):
        logits = ops.matmul(features, ops.transpose(self.kernel)) + self.b
        return ops.cast(logits, self.variable_dtype)  # a softmax in half precision would not sum to 1

    def log_probs(self, features):
        """ln P(w | context) for every word w, float [B, |V|], in nats."""
        return ops.log_softmax(self(features))

    def log_prob(self, features, target_ids):
        """ln P(target | context), float [B], in nats, for int targets [B]."""
        return -self.negative_log_likelihood(self(features), target_ids)

    def negative_log_likelihood(self, logits, target_ids):
        """-ln P(target | context) in nats, float [B], from logits [B, |V|] and int targets [B].

        It is NaN for a target that is no id of the vocabulary, so that training on such targets does not go unseen.
        """
        target_ids = ops.reshape(target_ids, (-1,))
        known = ops.logical_and(target_ids >= 0, target_ids < self.vocabulary_size)
        return ops.where(known, ops.logsumexp(logits, axis=-1) - _logit_of(logits, target_ids), float("nan"))

    def loss(self, logits, negative_log_likelihood):
        """What training minimises, float [B]: the likelihood of targets that give up a little of their probability.

            loss = (1-ε) (-ln P(target)) + ε sum_w q(w) (-ln P(w)),    ε = `held_out_mass`

        q is a distribution over words that the training text lacks (see `set_unigram`). The likelihood alone drives
        the probability of words that training never shows to zero, whatever the context; with ε their share stays
        about ε. It is 0 by default, and no part of it enters a perplexity.
        """
        if not self.held_out_mass:
            return negative_log_likelihood
        held_out = ops.logsumexp(logits, axis=-1) - ops.sum(logits * self.q, axis=-1)
        return (1 - self.held_out_mass) * negative_log_likelihood + self.held_out_mass * held_out

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Begin as the unigram model: b = ln p(w), so that the network need only learn what the context adds.

            p(w) = (1-ε) c(w)/N + ε q(w),    q(w) ∝ max(min_count - c(w), 0)

        q goes to words seen in training less often than the vocabulary asks of a word: one counted over the whole
        corpus promises that each occurs `min_count` times, so what training lacks of that lies in the other splits.
        Where no word lacks anything q is uniform; without ε a word never seen counts as if seen once. `<pad>` and
        `<s>`, which are never predicted, get a probability too small to matter; so does `</s>` if training lacks it.

        Args:
            counts: how often each id is a target in training, int [|V|].
            min_count: how often a word had to be seen to join the vocabulary.

        Raises:
            InputError: `counts` is not [|V|] or holds nothing.
        """
        counts = np.asarray(counts, np.float64)
        if counts.shape != (self.vocabulary_size,) or counts.sum() <= 0:
            raise InputError(
                f"`counts` must be [{self.vocabulary_size}] with a positive sum. Received: {counts.shape}."
            )
        predicted = counts > 0
        predicted[UNK_ID] = True  # it may always be met
        predicted[EOS_ID + 1 :] = True
        q = np.where(predicted, np.maximum(min_count - counts, 0), 0)
        q = q if q.any() else predicted.astype(np.float64)
        q /= q.sum()
        if self.held_out_mass:
            self.q.assign(q)
            p = (1 - self.held_out_mass) * counts / counts.sum() + self.held_out_mass * q
        else:
            p = np.where(predicted, np.maximum(counts, 1), 0)
            p = p / p.sum()
        self.b.assign(np.log(np.where(predicted, np.maximum(p, _NEVER), _NEVER)))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.vocabulary_size)

    def get_config(self):
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "held_out_mass": self.held_out_mass,
            "weight_decay": self.weight_decay,
        }


def _logit_of(logits, ids):
    """logits[i, ids[i]], float [B]: as a masked sum, which XLA fuses with its neighbours, where a gather does not."""
    place = ops.arange(logits.shape[-1], dtype=ids.dtype)
    return ops.sum(ops.where(ops.equal(place, ops.expand_dims(ids, -1)), logits, 0), axis=-1)
