"""Energy head of the paper's section 5.1: the hidden layer sees the context and one word."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.ids import PAD_ID
from keras_nplm.layers.arrays import convert_to_float32
from keras_nplm.layers.energy_ops import all_energies, energies
from keras_nplm.layers.heads.base import Head, safe_log
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import Scores


@keras.saving.register_keras_serializable("keras_nplm")
class EnergyHead(Head):
    """Energy-based head of the paper's section 5.1, with a hidden layer for context and word.

        E(w, context) = -b_w - v · tanh(d + H [x; C(w)]),    y_w = -E(w, context)

    The paper's v and b have the opposite sign. With ours the logit y = -E grows with b, as in every
    head, and b starts at the unigram model. The paper's sum of biases includes those of the context
    words. They are the same for all targets and cancel in P. C is the matrix of the context layer
    (see `tie`). H = [H_x; H_w] has a block for each context word and one for the target. There is
    no matrix [|V|, h]: only C and b grow with the vocabulary, and the network has |V| (m+1) + h (n
    m + 2) parameters.

    One probability takes |V| h tanh, so that it is trained by `SampledSoftmax`. This is the paper's
    importance sampling: it estimates the sum in the gradient of -ln P,

        dE(target) - sum_w P(w) dE(w),

    from the target and k negative samples of Q, each with the weight exp(-E(w)) / k Q(w), divided
    by the sum of these weights. A step takes (k+1) h tanh per n-gram, whatever |V|.

    Args:
        vocabulary_size: int, |V|.
        hidden_units: int, h, of the hidden layer that context and target share.
        dropout: float in [0, 1), the share of hidden units that training leaves out, the same units
            for all words.
        weight_decay: float, the paper's weight decay on H. Only that of an optimiser is on v, too.

    Call arguments:
        features: float [B, (n-1) m], x.

    Returns:
        P(w | context), float [B, |V|].

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5.1; Bengio & Senécal (2003),
    Quick training of probabilistic neural nets by importance sampling.
    """

    options = ("hidden_units", "dropout")
    uses_embedding = True

    def __init__(
        self,
        vocabulary_size: int,
        hidden_units: int = 100,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(vocabulary_size, weight_decay, **kwargs)
        self.supports_jit = False  # XLA is slower here, since it makes gradients dense
        self.hidden_units = hidden_units
        self.dropout = dropout
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def tie(self, embedding: keras.Variable) -> None:
        # in a list or as an attribute, Keras would save it here, too
        self._embedding = lambda: embedding

    @property
    def embedding(self) -> keras.Variable:
        """C, [|V|, m]."""
        return self._embedding()

    def build(self, input_shape: tuple) -> None:
        self.context_width = input_shape[-1]
        joined_width = self.context_width + self.embedding.shape[1]
        self.H = self.add_matrix("H", (joined_width, self.hidden_units))
        # Around d = 0 tanh is linear: contexts and words would not interact
        start_of_d = keras.initializers.RandomUniform(-2, 2)
        start_of_v = keras.initializers.RandomUniform(-1, 1)
        self.d = self.add_weight(name="d", shape=(self.hidden_units,), initializer=start_of_d)
        self.v = self.add_weight(name="v", shape=(self.hidden_units,), initializer=start_of_v)
        self.drop.build((None, self.hidden_units))
        self.b = self.add_weight(name="b", shape=(self.vocabulary_size,), initializer="zeros")

    def scores(self, features: Tensor, training: bool = False) -> "EnergyScores":
        features = ops.cast(features, self.accumulator_dtype)
        contexts = ops.matmul(features, self.H[: self.context_width]) + self.d
        kept = self.drop(ops.ones_like(contexts), training=training)
        return EnergyScores(self, contexts, kept * self.v)

    def embed_words(self, word_ids: Tensor | None = None) -> Tensor:
        """Return t = H_w C(w), float [k, h] for word ids [k], or [|V|, h] for all; 0 for
        `<pad>`.
        """
        if word_ids is None:
            vectors = ops.convert_to_tensor(self.embedding)
            word_ids = ops.arange(self.vocabulary_size)
        else:
            vectors = rows(self.embedding, word_ids)
        vectors = ops.cast(vectors, self.accumulator_dtype)
        is_word = ops.cast(ops.not_equal(word_ids, PAD_ID), vectors.dtype)
        return ops.matmul(vectors * ops.expand_dims(is_word, -1), self.H[self.context_width :])

    def list_arrays(self) -> dict[str, Any] | None:
        return {name: convert_to_float32(getattr(self, name)) for name in "Hdvb"}

    @property
    def biases(self) -> list[keras.Variable]:
        return [self.b, self.d]  # v is a vector, but of weights, which an optimiser decays

    def set_unigram(self, unigram: np.ndarray) -> None:
        self.b.assign(safe_log(unigram))


@dataclasses.dataclass(frozen=True)
class EnergyScores(Scores):
    """The scores of an `EnergyHead`: y_w = b_w + v · tanh(z + t_w)."""

    head: EnergyHead
    contexts: Tensor  # z = d + H_x x, float [B, h]
    v: Tensor  # float [B, h], without the units that dropout leaves out

    def logits(self) -> Tensor:
        words = self.head.embed_words()
        return all_energies(self.contexts, words, self.v, loop=self.head.uses_loops) + self.head.b

    def log_z(self) -> Tensor:
        y = all_energies(self.contexts, self.head.embed_words(), self.v, fused=True)
        return ops.logsumexp(y + self.head.b, axis=-1)

    def logit(self, word_ids: Tensor) -> Tensor:
        a = ops.tanh(self.contexts + self.head.embed_words(word_ids))  # [B, h]
        return ops.sum(a * self.v, axis=-1) + rows(self.head.b, word_ids)

    def logits_of(self, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        bias = rows(self.head.b, word_ids) + offset
        return energies(self.contexts, self.head.embed_words(word_ids), self.v) + bias

    def take(self, places: Tensor) -> "EnergyScores":
        contexts = ops.take(self.contexts, places, axis=0)
        return EnergyScores(self.head, contexts, ops.take(self.v, places, axis=0))
