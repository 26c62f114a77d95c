"""HybridNetwork: a network with the log-probabilities of an n-gram model inside."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import StoredScores
from keras_nplm.models.networks.context_network import ContextNetwork

_LEAST = -30.0  # ln Q of a word that the n-gram model never predicts


@keras.saving.register_keras_serializable("keras_nplm")
class HybridNetwork(ContextNetwork):
    """Network with the log-probabilities of an n-gram model inside: it learns what is left to
    explain.

        y' = y + (g + v · a) ln Q(· | context),    P(w | context) = exp(y'_w) / sum_i exp(y'_i)

    Q is a language model over the same vocabulary, such as Kneser-Ney. b and v start at 0 and the
    gain g at 1, so that training starts near Q. v says how far Q is trusted in a context. A network
    of characters or of a few thousand subwords has too few parameters to learn spelling by heart,
    which an n-gram model does. In training Q must not have seen the n-gram that it predicts: see
    `keras_nplm.models.jackknife`. The logits [B, |V|] are stored.

    Inputs are `{"contexts": int [B, n-1], "log_q": float [B, |V|]}`, ln Q of each context, as
    `hybrid_dataset` gives them. With `{"segments": …}` ln Q is that of each target, [S T, |V|].
    `Hybrid` is the network with its Q as one language model.

    Example:

    >>> from keras_nplm import ContextEmbedding, Likelihood, LinearHead, TanhHidden
    >>> network = HybridNetwork(
    ...     order=3,
    ...     embed=ContextEmbedding(7, 4, name="embed"),
    ...     hidden=TanhHidden(8, name="hidden"),
    ...     head=LinearHead(7, name="prob"),
    ...     objective=Likelihood(),
    ... )
    >>> _ = network.prob.U.assign(np.zeros((7, 8)))  # y is 0: P is Q
    >>> q = np.array([[0.02, 0.02, 0.02, 0.24, 0.2, 0.2, 0.3]], "float32")
    >>> p = network({"contexts": np.array([[4, 5]]), "log_q": np.log(q)})
    >>> np.round(p, 2).tolist() == np.round(q, 2).tolist()
    True

    Reference: Neubig & Dyer (2016), Generalizing and hybridizing count-based and neural language
    models; Li et al. (2022), Residual learning of neural text generation with n-gram language
    model.
    """

    reads_log_q = True

    def build_parts(self, features_shape: tuple) -> None:
        self.prob.check_all_words("with an n-gram model inside")
        options = dict(dtype=self.prob.accumulator_dtype, autocast=False)
        self.g = self.add_weight(name="g", shape=(1,), initializer="ones", **options)
        self.v = self.add_weight(
            name="v", shape=(features_shape[-1],), initializer="zeros", **options
        )

    def scores(
        self, inputs: Any, training: bool = False, sum_gradient: bool = True
    ) -> StoredScores:
        if not isinstance(inputs, dict) or "log_q" not in inputs:
            raise InputError(
                '`inputs` must be {"contexts": …, "log_q": …} with an n-gram model inside. '
                "Received: contexts alone. "
                "Fix: use `hybrid_dataset`, or ask a `Hybrid` of this network."
            )
        context = self.read(inputs, training, sum_gradient)
        features = self.features(context, training)
        y = self.score(context, features, training).logits()
        # no product of matrices: oneDNN aborts on features of width 0, without a hidden layer
        products = ops.cast(features, y.dtype) * self.v
        gain = self.g + ops.sum(products, axis=-1, keepdims=True)  # [B, 1]
        log_q = ops.maximum(ops.cast(inputs["log_q"], y.dtype), _LEAST)
        return StoredScores(y + gain * log_q)

    def next_log_probs_with(self, context_ids: np.ndarray, log_q: np.ndarray) -> np.ndarray:
        """Return ln P(w | context), float [B, |V|], from contexts and ln Q, float [B, |V|]."""
        of_log_q = tf.TensorSpec([None, self.vocabulary_size], tf.float32)
        signature = [self.spec_ids(self.order - 1), of_log_q]
        return self.run_graph(_compute_log_probs_with, signature, context_ids, log_q)

    def set_head_unigram(self, unigram: np.ndarray) -> None:
        """Leave b at 0: Q has the frequencies of the words."""

    def forget_network(self) -> None:
        """Set the weights so that P is Q in every context."""
        weights = [*self.prob.list_own_variables(), self.v]
        if self.direct is not None:
            weights.append(self.direct.W)
        for weight in weights:
            weight.assign(ops.zeros_like(weight))
        # a word and a cluster of words have different biases
        self.prob.set_unigram(np.full(self.vocabulary_size, 1 / self.vocabulary_size))
        self.g.assign(ops.ones_like(self.g))

    def describe_inputs(self) -> dict:
        log_q = keras.KerasTensor((None, self.vocabulary_size), "float32", name="log_q")
        return {"contexts": super().describe_inputs(), "log_q": log_q}

    @property
    def biases(self) -> list[keras.Variable]:
        return [*super().biases, self.g, self.v]


def _compute_log_probs_with(network: HybridNetwork, context_ids: Tensor, log_q: Tensor) -> Tensor:
    return ops.log_softmax(network.scores({"contexts": context_ids, "log_q": log_q}).logits())
