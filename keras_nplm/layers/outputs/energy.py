"""The energy-based output: the target's features enter the hidden layer as the context's do."""

import keras
from keras import ops

from keras_nplm.data.vocabulary import PAD_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.energy_ops import all_energies, energies, energy_log_normaliser
from keras_nplm.layers.ops import rows
from keras_nplm.layers.outputs.sampled import SampledOutput, softmax_of_drawn


@keras.saving.register_keras_serializable("keras_nplm")
class EnergyOutput(SampledOutput):
    """The energy-based variant: a word goes through the hidden layer together with its context.

        E(w, context) = -b_w - v · tanh(d + H [x; C(w)]),    P(w | context) = exp(-E(w)) / sum_i exp(-E(i))

    The paper's v and b have the other sign; with ours the logit y = -E grows with b, as in every output, and b begins
    at the unigram. Its sum of biases has those of the context's words, too, which are the same for all targets and
    cancel in P: b_w is all that is left. C is the context's own matrix (`tie`), H = [H_x; H_w] has a block for each
    word of the context and one for the target. So there is no matrix [|V|, h], and nothing but C and b grows with the
    vocabulary: |V| (m+1) + h (n m + 2) parameters.

    A probability takes |V| h tanh. Training draws words, and is importance sampling: of the gradient of -ln P,
    dE(target) - sum_w P(w) dE(w), the sum is estimated from the target and k words of Q, each with the weight

        exp(-E(w)) / k Q(w)    over the sum of these weights,

    which is the gradient of `SampledSoftmax`'s loss on y = -E. A step takes (k+1) h tanh an n-gram, whatever |V|.

    Args:
        vocabulary_size: int, |V|.
        hidden_units: int, h, of the layer that context and target share.
        num_sampled, proposal, held_out_mass, self_normalisation, seed: see `SampledOutput`.

    Call arguments:
        features: float [B, (n-1) m], x; in training x may be followed by what dropout leaves of the hidden units,
            [B, h], the same for all words.

    Returns:
        logits y = -E, float [B, |V|].

    Example:

    >>> import numpy as np
    >>> from keras_nplm import NPLM
    >>> model = NPLM(vocabulary_size=1000, order=5, embedding_dim=30, hidden_units=50, output_layer="energy")
    >>> sum(weight.numpy().size for weight in model.trainable_weights) == 1000 * 31 + 50 * (5 * 30 + 2)
    True
    >>> probabilities = np.exp(model.next_log_probs(np.array([[4, 5, 6, 7]])))
    >>> float(probabilities.sum().round(5))
    1.0

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 5.1; Bengio & Senécal (2003), Quick training of
    probabilistic neural nets by importance sampling.
    """

    loss_name = "sampled_loss"

    def __init__(self, vocabulary_size: int, hidden_units: int = 100, **kwargs):
        if hidden_units < 1:
            raise InputError(f"`hidden_units` must be 1 or more with the energy output. Received: {hidden_units}.")
        super().__init__(vocabulary_size, **kwargs)
        self.hidden_units = hidden_units
        self._words = None

    def tie(self, matrix: keras.Variable) -> None:
        """Take C, [|V|, m], for the features of the targets; to be called before `build`."""
        self._words = lambda: matrix  # as an attribute it would be saved here, too

    def build(self, input_shape):
        if self._words is None:
            raise InputError("The energy output needs C for its targets: give it to an NPLM, or call `tie` first.")
        self.context_width = input_shape[-1]
        self.H = self.add_weight(
            name="H",
            shape=(self.context_width + self._words().shape[1], self.hidden_units),
            initializer="glorot_uniform",
            autocast=False,
        )
        # Around d = 0 tanh is linear: no product of z and t in it, and nothing that tells contexts apart
        self.d = self._vector("d", 2)
        self.v = self._vector("v", 1)
        super().build(input_shape)

    def _vector(self, name: str, spread: float):
        initializer = keras.initializers.RandomUniform(-spread, spread)
        return self.add_weight(name=name, shape=(self.hidden_units,), initializer=initializer, autocast=False)

    def contexts(self, features):
        """z = d + H_x x, float [B, h]."""
        features = ops.cast(features[:, : self.context_width], self.variable_dtype)
        return ops.matmul(features, self.H[: self.context_width]) + self.d

    def words(self, word_ids=None):
        """t = H_w C(w) of some words, float [k, h], or of all, [|V|, h]; of `<pad>` 0, as in a context."""
        if word_ids is None:
            vectors, word_ids = ops.convert_to_tensor(self._words()), ops.arange(self.vocabulary_size)
        else:
            vectors = rows(self._words(), word_ids)
        present = ops.cast(ops.not_equal(word_ids, PAD_ID), vectors.dtype)
        return ops.matmul(vectors * ops.expand_dims(present, -1), self.H[self.context_width :])

    def logits_of(self, features, word_ids):
        return energies(self.contexts(features), self.words(word_ids), self._left(features)) + rows(self.b, word_ids)

    def logit(self, features, target_ids):
        return self._logit(self.contexts(features), target_ids, self._left(features))

    def _logit(self, contexts, target_ids, v):
        a = ops.tanh(contexts + self.words(target_ids))  # [B, h]
        return ops.sum(a * v, axis=-1) + rows(self.b, target_ids)

    def _left(self, features):
        """v, [h], or what dropout leaves of it in each context, [B, h]."""
        left = features[:, self.context_width :]
        return ops.cast(left, self.variable_dtype) * self.v if left.shape[1] else self.v

    def contrast(self, target, sampled):
        return softmax_of_drawn(target, sampled)

    def call(self, features):
        return all_energies(self.contexts(features), self.words(), self.v) + self.b

    def log_prob(self, features, target_ids, which=None):
        target_ids, known = self.in_vocabulary(target_ids)
        contexts = self.contexts(features)
        log_z = energy_log_normaliser(contexts, self.words(), self.v, self.b)
        if which is not None:
            contexts, log_z = ops.take(contexts, which, axis=0), ops.take(log_z, which)
        return (self._logit(contexts, target_ids, self.v) - log_z) * known

    @property
    def biases(self):
        return [self.b, self.d]

    def get_config(self):
        return super().get_config() | {"hidden_units": self.hidden_units}
