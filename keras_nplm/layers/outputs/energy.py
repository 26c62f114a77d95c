"""Energy-based output: the target's features enter the hidden layer together with the context's."""

from typing import Any

import keras
from keras import ops

from keras_nplm.data.special_ids import PAD_ID
from keras_nplm.io.errors import check_argument
from keras_nplm.layers.energy_ops import all_energies, energies, energy_log_normaliser
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.sampled import SampledOutput


@keras.saving.register_keras_serializable("keras_nplm")
class EnergyOutput(SampledOutput):
    """Energy-based output of the paper's section 5.1: the hidden layer sees the context and one word.

        E(w, context) = -b_w - v · tanh(d + H [x; C(w)]),    P(w | context) = exp(-E(w)) / sum_i exp(-E(i))

    The paper's v and b have the opposite sign. With ours the logit y = -E grows with b, as in every output layer, and
    b starts at the unigram model. The paper's sum of biases includes those of the context words. They are the same for
    all targets and cancel in P. C is the matrix of the context layer (see `tie`). H = [H_x; H_w] has a block for each
    context word and one for the target. There is no matrix [|V|, h]: only C and b grow with the vocabulary, and the
    network has |V| (m+1) + h (n m + 2) parameters.

    One probability takes |V| h tanh. Training is importance sampling: it estimates the sum in the gradient of -ln P,
    dE(target) - sum_w P(w) dE(w), from the target and k negative samples of Q, each with the weight

        exp(-E(w)) / k Q(w)    divided by the sum of these weights.

    This is the gradient of the loss of `SampledSoftmax` on y = -E. A step takes (k+1) h tanh per n-gram, whatever |V|.

    Args:
        vocabulary_size: int, |V|.
        hidden_units: int, h, of the hidden layer that context and target share.
        dropout: float in [0, 1), the share of hidden units that training leaves out, the same units for all words.
        num_sampled, proposal, held_out_mass, self_normalisation, seed: see `SampledOutput`.

    Call arguments:
        features: float [B, (n-1) m], x.

    Returns:
        P(w | context), float [B, |V|].

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5.1; Bengio & Senécal (2003), Quick training of
    probabilistic neural nets by importance sampling.
    """

    options = ("hidden_units", "dropout")
    loss_name = "sampled_loss"
    includes_hidden_layer = True
    uses_embedding = True
    uses_loop = True  # of `logits`, over contexts: less memory, but runtimes of devices may have no loops

    def __init__(self, vocabulary_size: int, hidden_units: int = 100, dropout: float = 0.0, **kwargs: Any):
        wanted = "1 or more with the energy output"
        check_argument("hidden_units", hidden_units >= 1, wanted, hidden_units, "100 is a usual value.")
        super().__init__(vocabulary_size, **kwargs)
        self.hidden_units = hidden_units
        self.dropout = dropout
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self._embedding = None

    def tie(self, embedding: keras.Variable) -> None:
        self._embedding = lambda: embedding  # as an attribute Keras would save it here, too

    def build(self, input_shape: tuple) -> None:
        self.check_tied(self._embedding)
        self.context_width = input_shape[-1]
        self.H = self.add_matrix("H", (self.context_width + self._embedding().shape[1], self.hidden_units))
        # Around d = 0 tanh is linear: contexts and words would not interact
        uniform, shape = keras.initializers.RandomUniform, (self.hidden_units,)
        self.d = self.add_weight(name="d", shape=shape, initializer=uniform(-2, 2))
        self.v = self.add_weight(name="v", shape=shape, initializer=uniform(-1, 1))
        self.drop.build((None, self.hidden_units))
        super().build(input_shape)

    def project(self, features: Tensor, training: bool = False) -> tuple[Tensor, Tensor]:
        """Return z = d + H_x x, float [B, h], and v, float [h], or [B, h] after dropout."""
        features = ops.cast(features, self.accumulator_dtype)
        contexts = ops.matmul(features, self.H[: self.context_width]) + self.d
        v = ops.convert_to_tensor(self.v)
        if training and self.dropout:
            v = self.drop(ops.ones_like(contexts), training=True) * v
        return contexts, v

    def words(self, word_ids: Tensor | None = None) -> Tensor:
        """Return t = H_w C(w), float [k, h] for word ids [k], or [|V|, h] for all words; 0 for `<pad>`."""
        if word_ids is None:
            vectors, word_ids = ops.convert_to_tensor(self._embedding()), ops.arange(self.vocabulary_size)
        else:
            vectors = rows(self._embedding(), word_ids)
        vectors = ops.cast(vectors, self.accumulator_dtype)
        present = ops.cast(ops.not_equal(word_ids, PAD_ID), vectors.dtype)
        return ops.matmul(vectors * ops.expand_dims(present, -1), self.H[self.context_width :])

    def logits_of(self, projected: Tensor, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        contexts, v = projected
        return energies(contexts, self.words(word_ids), v) + (rows(self.b, word_ids) + offset)

    def logit(self, projected: Tensor, output_ids: Tensor) -> Tensor:
        contexts, v = projected
        a = ops.tanh(contexts + self.words(output_ids))  # [B, h]
        return ops.sum(a * v, axis=-1) + rows(self.b, output_ids)

    def logits(self, features: Tensor) -> Tensor:
        contexts, v = self.project(features)
        return all_energies(contexts, self.words(), v, loop=self.uses_loop) + self.b

    def log_prob(self, features: Tensor, output_ids: Tensor, which: Tensor | None = None) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        contexts, v = self.project(features)
        log_z = energy_log_normaliser(contexts, self.words(), v, self.b)
        if which is not None:
            contexts, log_z = ops.take(contexts, which, axis=0), ops.take(log_z, which)
        return (self.logit((contexts, v), output_ids) - log_z) * known

    @property
    def biases(self) -> list[keras.Variable]:
        return [self.b, self.d]  # v has weight decay
