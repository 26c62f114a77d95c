"""Base classes of output layers: P(w | context), log-probabilities, the training loss, the unigram start."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.special_ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.layers.ops import ConfiguredLayer, Tensor, l2_regularizer
from keras_nplm.layers.pointer import Features

NEVER = 1e-12  # the probability of an id that is never a target


class Output(ConfiguredLayer):
    """Base class of output layers, which turn features f of a context into P(w | context).

    Calling the layer gives probabilities [B, outputs]. `log_probs` gives all log-probabilities, `log_prob` the
    log-probabilities of given targets, `training_loss` the loss that training minimises. Probabilities are exactly
    normalised, whatever the training loss.
    """

    options = ("vocabulary_size",)
    loss_name = "loss"  # of the training loss in the logs: "loss" for a likelihood
    is_sampled = False  # whether training computes the logits of sampled words only: its loss is no likelihood
    has_output_vectors = False  # whether the layer has one kernel with a row of features' width for each word
    includes_hidden_layer = False  # whether the layer has a hidden layer of its own, so that its features are x
    uses_embedding = False  # whether the layer needs the matrix C of the context (see `tie`)
    hidden_units = 0  # of a hidden layer of its own
    weight_decay = 0.0
    held_out_mass = 0.0  # ε of `set_unigram`
    shortlist_size: int | None = None
    outside_output = False

    def __init__(self, vocabulary_size: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)  # an output computes in `accumulator_dtype`
        self.vocabulary_size = vocabulary_size

    @property
    def accumulator_dtype(self) -> str:
        """The dtype of logits, sums and probabilities: float64 if the weights are, else float32."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Add a weight of `accumulator_dtype`, unless a dtype is given: half precision is too coarse for an output."""
        return super().add_weight(*args, **{"dtype": self.accumulator_dtype, "autocast": False} | kwargs)

    def add_matrix(self, name: str, shape: tuple[int, int]) -> keras.Variable:
        """Add a matrix with weight decay."""
        regularizer = l2_regularizer(self.weight_decay)
        return self.add_weight(name=name, shape=shape, initializer="glorot_uniform", regularizer=regularizer)

    @property
    def listed(self) -> int:
        """The number of words that are predicted: ids below it. With a short-list 4+s, else |V|."""
        return self.vocabulary_size if self.shortlist_size is None else len(SPECIALS) + self.shortlist_size

    @property
    def num_outputs(self) -> int:
        """The number of output units: the predicted words, and one for all words outside the short-list if asked."""
        return self.listed + bool(self.outside_output)

    def call(self, features: Tensor | Features) -> Tensor:
        """Return P(w | context), float [B, outputs]."""
        return ops.exp(self.log_probs(features))

    def log_probs(self, features: Tensor) -> Tensor:
        """Return ln P(w | context) of every output, float [B, outputs], in nats."""
        raise NotImplementedError

    def log_prob(self, features: Tensor, output_ids: Tensor, which: Tensor | None = None) -> Tensor:
        """Return ln P(output | context), float [T], in nats, for int outputs [T].

        `which`, int [T], is the row of the features of each output. None: output i belongs to row i.
        """
        raise NotImplementedError

    def negative_log_likelihood(self, features: Tensor, output_ids: Tensor) -> Tensor:
        """Return -ln P(output | context), float [B], in nats, for int outputs [B]; exact, with a gradient."""
        return -self.log_prob(features, output_ids)

    def training_loss(self, features: Tensor, output_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the training loss of each target, float [B], and its exact -ln P, float [B] or None."""
        raise NotImplementedError

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits y of all outputs, float [B, outputs]: ln P up to a constant of the context."""
        raise NotImplementedError

    def project(self, features: Tensor, training: bool = False) -> Tensor:
        """Return the input of `logits_of` and `logit`: the features, or a projection of them."""
        raise NotImplementedError

    def logits_of(self, projected: Tensor, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return the logits of a few words, the same in all contexts, plus `offset` [k]: float [B, k], for int [k]."""
        raise NotImplementedError

    def logit(self, projected: Tensor, output_ids: Tensor) -> Tensor:
        """Return the logit of one word per context, float [B], for int [B]."""
        raise NotImplementedError

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay."""
        return [weight for weight in self.trainable_weights if len(weight.shape) == 1]

    def tie(self, embedding: keras.Variable) -> None:
        """Use the matrix C, [|V|, m], of the context layer. Called before `build` if `uses_embedding`."""
        raise NotImplementedError

    def check_tied(self, embedding: object) -> None:
        """Refuse to build a layer that needs the matrix C before `tie` is called."""
        if self.uses_embedding and embedding is None:
            name = type(self).__name__
            raise InputError(f"{name} must have the matrix C to be built. Fix: pass the layer to NPLM(output=…).")

    def get_build_config(self) -> dict | None:
        # Keras would build the layer when it is deserialised, before `tie`
        return None if self.uses_embedding else super().get_build_config()

    def output_ids(self, target_ids: Tensor) -> Tensor:
        """Return the outputs of targets: the ids, or the outside output, if any, for words outside the list."""
        if not self.outside_output:
            return target_ids
        target_ids = ops.convert_to_tensor(target_ids)
        return ops.where(target_ids < self.vocabulary_size, ops.minimum(target_ids, self.listed), target_ids)

    def clip_ids(self, output_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return output ids int [B], clipped to the range, and float [B]: 1, or NaN for an id that was out of range.

        A loss is multiplied by the second, so that training on such targets does not go unseen.
        """
        output_ids = ops.cast(ops.reshape(output_ids, (-1,)), "int32")
        known = ops.logical_and(output_ids >= 0, output_ids < self.num_outputs)
        inside = ops.clip(output_ids, 0, self.num_outputs - 1)
        return inside, ops.cast(ops.where(known, 1.0, float("nan")), self.accumulator_dtype)

    def set_unigram(self, counts: np.ndarray, min_count: int = 1) -> None:
        """Initialise the biases with the unigram model, so that the network starts from word frequencies.

            P(w | context) = p(w) = (1-ε) c(w)/N + ε q(w),    q(w) ∝ max(min_count - c(w), 0),    ε = `held_out_mass`

        q is the distribution over words that are rare in training. A vocabulary counted over the whole corpus promises
        `min_count` occurrences of each word. Occurrences that training does not have lie in the other splits. If no
        word is short of its promise, q is uniform. If ε is 0, a word never seen counts as seen once. `<pad>` and
        `<s>` are never predicted: their probability is 1e-12. So is that of `</s>` if training does not predict it.

        `counts`, int [|V|], says how often each id is a target in training.
        """
        counts = np.asarray(counts, np.float64)
        fits, wanted = counts.shape == (self.vocabulary_size,), f"[{self.vocabulary_size}] with a positive sum"
        fix = "count the targets of the training text with this vocabulary."
        check_argument("counts", fits and counts.sum() > 0, wanted, counts.shape, fix)
        outside = [counts[self.listed :].sum()] if self.outside_output else []
        counts = np.append(counts[: self.listed], outside)
        predicted = counts > 0
        predicted[UNK_ID] = True  # any text may have unknown words
        predicted[EOS_ID + 1 :] = True
        q = np.where(predicted, np.maximum(min_count - counts, 0), 0)
        q = q if q.any() else predicted.astype(np.float64)
        mass = self.held_out_mass
        smoothed = counts if mass else np.where(predicted, np.maximum(counts, 1), 0)
        p = (1 - mass) * smoothed / smoothed.sum() + mass * q / q.sum()
        self.initialise_from_unigram(np.where(predicted, np.maximum(p, NEVER), 0), q / q.sum())

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        """Set the weights so that P(w | context) is `unigram`, 0 for words that are never predicted.

        `held_out` is q of `set_unigram`. Both are float [outputs].
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.num_outputs)

    def compute_output_spec(self, features: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(
            self.compute_output_shape(Features.of(features).activations.shape), self.accumulator_dtype
        )


def safe_log(probability: np.ndarray) -> np.ndarray:
    """Return ln p, with ln 1e-12 for a word that is never predicted."""
    return np.log(np.maximum(probability, NEVER))


class BiasedOutput(Output):
    """Base class of output layers with one bias per output, b, which starts at ln P of the unigram model.

    A subclass has `logits(features)`, the logits y of all outputs, float [B, outputs].
    """

    def build(self, input_shape: tuple) -> None:
        self.b = self.add_weight(name="b", shape=(self.num_outputs,), initializer="zeros")

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        self.b.assign(safe_log(unigram))

    def call(self, features: Tensor) -> Tensor:
        return ops.softmax(self.logits(features))

    def log_probs(self, features: Tensor) -> Tensor:
        return ops.log_softmax(self.logits(features))
