"""Hybrid output: the full softmax with the log-probabilities of an n-gram model inside."""

import keras
import numpy as np
from keras import ops

from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.full import FullSoftmax
from keras_nplm.layers.pointer import Features

_LEAST = -30.0  # ln Q of a word that the n-gram model never predicts


@keras.saving.register_keras_serializable("keras_nplm")
class HybridSoftmax(FullSoftmax):
    """Full softmax with the log-probabilities of an n-gram model inside: the network learns what is left to explain.

        y = b + [U W] [a; x] + (g + v · [a; x]) ln Q(· | context),    P(w | context) = exp(y_w) / sum_i exp(y_i)

    Q is a language model over the same vocabulary, such as Kneser-Ney. b and v start at 0 and the gain g at 1, so that
    training starts near Q. v says how far Q is trusted in a context. A network of characters or of a few thousand
    subwords has too few parameters to learn spelling by heart, which an n-gram model does. In training Q must not have
    seen the n-gram that it predicts: see `keras_nplm.models.jackknife`. The logits [B, |V|] are stored. Without ln Q
    the layer is a `FullSoftmax`.

    Args:
        vocabulary_size, held_out_mass, self_normalisation, weight_decay, rank, tied: see `FullSoftmax`.

    Call arguments:
        features: `Features`, with activations float [B, w] and log_probs float [B, |V|].

    Example:

    >>> output, activations = HybridSoftmax(vocabulary_size=7), np.zeros((1, 3), "float32")
    >>> output.build(activations.shape)
    >>> log_q = np.log([[0.02, 0.02, 0.02, 0.24, 0.2, 0.2, 0.3]]).astype("float32")
    >>> np.round(output(Features(activations, log_probs=log_q)), 2).tolist() == np.round(np.exp(log_q), 2).tolist()
    True

    Reference: Neubig & Dyer (2016), Generalizing and hybridizing count-based and neural language models; Li et al.
    (2022), Residual learning of neural text generation with n-gram language model.
    """

    has_output_vectors = False  # a few rows of the kernel do not give the logit of a word

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        self.g = self.add_weight(name="g", shape=(1,), initializer="ones")
        self.v = self.add_weight(name="v", shape=(input_shape[-1],), initializer="zeros")

    def logits(self, features: Tensor | Features) -> Tensor:
        features = Features.of(features)
        if features.log_probs is None:
            return super().logits(features)
        log_q = ops.maximum(ops.cast(features.log_probs, self.accumulator_dtype), _LEAST)
        gain = self.g + ops.matmul(ops.cast(features.activations, self.accumulator_dtype), self.v[:, None])  # [B, 1]
        return super().logits(features) + gain * log_q

    def log_prob(self, features: Tensor, output_ids: Tensor, which: Tensor | None = None) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        log_probs = self.log_probs(features)
        log_probs = log_probs if which is None else ops.take(log_probs, which, axis=0)
        return ops.take_along_axis(log_probs, output_ids[:, None], axis=1)[:, 0] * known

    def softmax(
        self, features: Tensor, output_ids: Tensor, dtype: str, expected: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.logits(features)
        logit = ops.take_along_axis(logits, output_ids[:, None], axis=1)[:, 0]
        mean = ops.zeros_like(logit) if expected is None else ops.matmul(logits, expected)
        return ops.logsumexp(logits, axis=-1), logit, mean

    def forget_network(self) -> None:
        """Set the weights so that P is Q in every context."""
        changing = self.kernel if self.P is None else self.P
        for weight in (changing, self.b, self.v):
            weight.assign(ops.zeros_like(weight))
        self.g.assign(ops.ones_like(self.g))

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        """Do not change b: Q has the frequencies of the words."""
        super().initialise_from_unigram(np.ones_like(unigram), held_out)
