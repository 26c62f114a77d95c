"""Base classes of output layers: P(w | context), log-probabilities, the training loss, the unigram start."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.vocabulary import EOS_ID, PAD_ID, SPECIALS, UNK_ID
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.layers.ops import (
    Tensor,
    l2_regularizer,
    linear_logit,
    linear_softmax,
    log_normaliser,
    multiply_transposed,
    rows,
)
from keras_nplm.layers.pointer import NO_COPY, Copies, append_copies, split_copies

NEVER = 1e-12  # the probability of an id that is never a target


class Output(keras.layers.Layer):
    """Base class of output layers, which turn features f of a context into P(w | context).

    Calling the layer gives probabilities [B, outputs]. `log_probs` gives all log-probabilities, `log_prob` the
    log-probabilities of given targets, `training_loss` the loss that training minimises. Probabilities are exactly
    normalised, whatever the training loss.

    Args:
        vocabulary_size: int, |V|.

    Attributes:
        loss_name: str, the name of the training loss in the logs: `"loss"` for a likelihood.
        is_sampled: bool, whether training computes the logits of sampled words only. Such a loss is no likelihood.
        has_output_vectors: bool, whether the layer has one kernel with a row of features' width for each word.
        includes_hidden_layer: bool, whether the layer has a hidden layer of its own, so that its features are x.
        uses_embedding: bool, whether the layer needs the matrix C of the context (see `tie`).
    """

    loss_name = "loss"
    is_sampled = False
    has_output_vectors = False
    includes_hidden_layer = False
    uses_embedding = False
    hidden_units = 0  # of a hidden layer of its own
    held_out_mass = 0.0  # ε of `set_unigram`
    shortlist_size: int | None = None
    outside_output = False

    def __init__(self, vocabulary_size: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size

    @property
    def accumulator_dtype(self) -> str:
        """The dtype of logits, sums and probabilities: float64 if the weights are, else float32."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Add a weight of `accumulator_dtype`, unless a dtype is given: half precision is too coarse for an output."""
        return super().add_weight(*args, **{"dtype": self.accumulator_dtype} | kwargs)

    @property
    def listed(self) -> int:
        """The number of words that are predicted: ids below it. With a short-list 4+s, else |V|."""
        return self.vocabulary_size if self.shortlist_size is None else len(SPECIALS) + self.shortlist_size

    @property
    def num_outputs(self) -> int:
        """The number of output units: the predicted words, and one for all words outside the short-list if asked."""
        return self.listed + bool(self.outside_output)

    def call(self, features: Tensor) -> Tensor:
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
        """Return the logits of a few words, the same in all contexts: float [B, k], for int [k].

        `offset`, float [k], is added to the logits: as part of the bias it costs no pass over [B, k].
        """
        raise NotImplementedError

    def logit(self, projected: Tensor, output_ids: Tensor) -> Tensor:
        """Return the logit of one word per context, float [B], for int [B]."""
        raise NotImplementedError

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay."""
        raise NotImplementedError

    def input_columns(self, columns: slice) -> Tensor:
        """Return the part of [U W] that multiplies some of the features, [outputs, …]: U, or W."""
        raise NotImplementedError

    def tie(self, embedding: keras.Variable) -> None:
        """Use the matrix C, [|V|, m], of the context layer. Called before `build` if `uses_embedding`."""
        raise NotImplementedError

    def check_tied(self, tied: bool) -> None:
        """Refuse to build a layer that needs the matrix C before `tie` is called.

        Raises:
            InputError: `tied` is False.
        """
        if not tied:
            raise InputError(
                f"{type(self).__name__} must have the matrix C of the context before it is built. Received: no matrix. "
                "Fix: pass the layer to NPLM(output=…), or call `tie` first."
            )

    def get_build_config(self) -> dict | None:
        # Keras would build the layer when it is deserialised, before `tie`
        return None if self.uses_embedding else super().get_build_config()

    def output_ids(self, target_ids: Tensor) -> Tensor:
        """Return the outputs that stand for targets: the ids, or the outside output for words outside the list.

        Without an outside output such ids stay, and their loss is NaN: they must not be training data.
        """
        if not self.outside_output:
            return target_ids
        target_ids = ops.convert_to_tensor(target_ids)
        return ops.where(target_ids < self.vocabulary_size, ops.minimum(target_ids, self.listed), target_ids)

    def clip_ids(self, output_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return output ids int [B], moved into the range of outputs, and float [B]: 1, or NaN for an id out of range.

        A loss times the second is NaN for an id out of range, so that training on such targets does not go unseen.
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

        Args:
            counts: int [|V|], how often each id is a target in training.
            min_count: int, how often a word had to be seen to join the vocabulary.

        Raises:
            InputError: `counts` has a shape other than [|V|], or its sum is 0.
        """
        counts = np.asarray(counts, np.float64)
        if counts.shape != (self.vocabulary_size,) or counts.sum() <= 0:
            raise InputError(
                f"`counts` must be [{self.vocabulary_size}] with a positive sum. Received: {counts.shape}. Fix: count "
                "the targets of the training text with this vocabulary."
            )
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
        """Set the weights so that P(w | context) is `unigram`. Both arguments are float [outputs].

        `unigram` is 0 for words that are never predicted, and 1e-12 or more for the others. `held_out` is q of
        `set_unigram`.
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.num_outputs)

    def compute_output_spec(self, features: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(self.compute_output_shape(features.shape), self.accumulator_dtype)

    def get_config(self) -> dict:
        return super().get_config() | {"vocabulary_size": self.vocabulary_size}


def safe_log(probability: np.ndarray) -> np.ndarray:
    """Return ln p, with ln 1e-12 for a word that is never predicted."""
    return np.log(np.maximum(probability, NEVER))


class BiasedOutput(Output):
    """Base class of output layers with one bias per output, b, which starts at ln P of the unigram model."""

    def build(self, input_shape: tuple) -> None:
        self.b = self.add_weight(name="b", shape=(self.num_outputs,), initializer="zeros", autocast=False)

    @property
    def biases(self) -> list[keras.Variable]:
        return [self.b]

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        self.b.assign(safe_log(unigram))

    def call(self, features: Tensor) -> Tensor:
        return ops.softmax(self.logits(features))

    def log_probs(self, features: Tensor) -> Tensor:
        return ops.log_softmax(self.logits(features))


class LinearOutput(BiasedOutput):
    """Base class of output layers whose logits are linear in the features.

        y = b + [U W] f,    or of low rank y = b + K P f

    The kernel is kept with one row per output, [outputs, w], as in the paper, so that a few words cost a few rows. The
    features of a network with a pointer end with its copies, which are outputs, too; see `keras_nplm.layers.pointer`.

    Attributes:
        copied: int, n-1 in a network with a pointer, else 0: how many positions of the context are outputs, too.

    Args:
        vocabulary_size: int, |V|.
        weight_decay: float, the paper's weight decay on the matrices. The bias b has none.
        rank: int r or None. Project the features to r numbers first, so that [U W] has rank r.
        tied: bool. Use C as the kernel, on features projected to m numbers.
        shortlist_size: int s in [1, |V|-4], or None. Predict the s most frequent words and the special tokens only,
            which are the ids below 4+s. The other words have probability 0 (see `keras_nplm.Shortlist`). Train on the
            n-grams whose target is in the list (see `ngram_dataset(targets_below=…)`).
        outside_output: bool. Add one last output to a short-list, for "a word outside the list". Then training takes
            all n-grams, and a row of P over words sums to 1 - P(outside | context).
    """

    has_output_vectors = True
    copied = 0

    def __init__(
        self,
        vocabulary_size: int,
        weight_decay: float = 0.0,
        rank: int | None = None,
        tied: bool = False,
        shortlist_size: int | None = None,
        outside_output: bool = False,
        **kwargs: Any,
    ):
        words = vocabulary_size - len(SPECIALS)
        whole = shortlist_size is None
        in_range = whole or 1 <= shortlist_size <= words
        check_argument("rank", rank is None or rank >= 1, "1 or more, or None", rank, "give None for full rank.")
        check_argument("rank", not (tied and rank), "None if `tied`", rank, "a tied output has rank m.")
        check_argument(
            "shortlist_size", in_range, f"1 to {words}, or None", shortlist_size, "leave it out for all words."
        )
        no_list = whole and outside_output
        check_argument("outside_output", not no_list, "False without `shortlist_size`", True, "give `shortlist_size`.")
        check_argument("tied", whole or not tied, "False with `shortlist_size`", True, "C has a row for every word.")
        super().__init__(vocabulary_size, **kwargs)
        self.weight_decay = weight_decay
        self.rank = rank
        self.tied = tied
        self.shortlist_size = shortlist_size
        self.outside_output = outside_output
        self.kernel = self.P = None

    @property
    def uses_embedding(self) -> bool:
        return self.tied

    def tie(self, embedding: keras.Variable) -> None:
        self.kernel = embedding

    def build(self, input_shape: tuple) -> None:
        self.check_tied(self.kernel is not None or not self.tied)
        width = self.kernel.shape[1] if self.tied else self.rank
        if width:
            self.P = self._add_matrix("P", (input_shape[-1], width))
        if self.kernel is None:
            self.kernel = self._add_matrix("UW", (self.num_outputs, width or input_shape[-1]))
        super().build(input_shape)

    def save_own_variables(self, store: dict) -> None:
        for name, variable in self._stored_variables().items():
            store[name] = variable

    def load_own_variables(self, store: dict) -> None:
        if not self.tied:
            super().load_own_variables(store)
            return
        for name, variable in self._stored_variables().items():
            variable.assign(store[name])

    def _stored_variables(self) -> dict[str, keras.Variable]:
        """The variables by their names in a file: without C, which the context layer saves."""
        variables: dict[str, keras.Variable] = {}
        super().save_own_variables(variables)
        return {name: variable for name, variable in variables.items() if not self.tied or variable is not self.kernel}

    def _add_matrix(self, name: str, shape: tuple[int, int]) -> keras.Variable:
        options = dict(initializer="glorot_uniform", regularizer=l2_regularizer(self.weight_decay), autocast=False)
        return self.add_weight(name=name, shape=shape, **options)

    def project(self, features: Tensor, training: bool = False) -> Tensor:
        """Return the input of the kernel: the features f, or P f, float [B, r]; then the copies."""
        if self.P is None:
            return features
        features, copies = split_copies(features, self.copied)
        projected = self.project_features(features)
        return projected if copies is None else append_copies(projected, copies)

    def project_features(self, features: Tensor) -> Tensor:
        """Return f or P f, float [B, r], from features without copies."""
        return features if self.P is None else ops.matmul(features, ops.cast(self.P, features.dtype))

    def copy_words(self, scores: Tensor, context_ids: Tensor) -> Copies:
        """Return the copies of the context's words, given their scores; words without an output are not copied."""
        ids = self.output_ids(ops.cast(context_ids, "int32"))
        has_output = ops.logical_and(ids >= 0, ids < self.num_outputs)
        return Copies(ops.where(has_output, scores, NO_COPY), ops.where(has_output, ids, PAD_ID))

    def input_columns(self, columns: slice) -> Tensor:
        if self.P is None:
            return self.kernel[:, columns]
        return ops.matmul(self.kernel, ops.transpose(self.P[columns]))

    def logits(self, features: Tensor) -> Tensor:
        features = self.project(ops.cast(features, self.accumulator_dtype))  # half precision would not be exact
        projected, copies = split_copies(features, self.copied)
        kernel, bias = (ops.cast(weight, self.accumulator_dtype) for weight in (self.kernel, self.b))
        y = ops.matmul(projected, ops.transpose(kernel)) + bias
        return y if copies is None else copies.add_to_logits(y)

    def log_prob(self, features: Tensor, output_ids: Tensor, which: Tensor | None = None) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        projected, copies = split_copies(self.project(ops.cast(features, self.accumulator_dtype)), self.copied)
        log_z = log_normaliser(projected, self.kernel, self.b)
        log_z = log_z if copies is None else copies.add_to_normaliser(log_z)
        if which is not None:
            projected, log_z = ops.take(projected, which, axis=0), ops.take(log_z, which)
            copies = None if copies is None else copies.take(which)
        y = linear_logit(projected, self.kernel, self.b, output_ids)
        return ((y if copies is None else copies.add_to_logit(y, output_ids)) - log_z) * known

    def negative_log_likelihood(self, features: Tensor, output_ids: Tensor) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        log_z, logit, _ = self.softmax(ops.cast(features, self.accumulator_dtype), output_ids, self.accumulator_dtype)
        return (log_z - logit) * known

    def softmax(
        self, features: Tensor, output_ids: Tensor, dtype: str, expected: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log Z, the logits of the targets and their expectation; see `linear_softmax`. Copies are included.

        The expectation, for `held_out_mass`, is of y without copies: words without a training target are never copied.
        """
        projected, copies = split_copies(self.project(features), self.copied)
        log_z, logit, mean = linear_softmax(projected, self.kernel, self.b, output_ids, dtype, expected)
        if copies is not None:
            log_z, logit = copies.add_to_normaliser(log_z), copies.add_to_logit(logit, output_ids)
        return log_z, logit, mean

    def logits_of(self, projected: Tensor, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        projected, copies = split_copies(projected, self.copied)
        kernel, bias = (ops.cast(rows(weight, word_ids), projected.dtype) for weight in (self.kernel, self.b))
        if copies is None:
            return multiply_transposed(projected, kernel) + (bias + offset)
        return copies.add_to_logits_of(multiply_transposed(projected, kernel) + bias, word_ids) + offset

    def logit(self, projected: Tensor, output_ids: Tensor) -> Tensor:
        projected, copies = split_copies(projected, self.copied)
        y = linear_logit(projected, self.kernel, self.b, output_ids)
        return y if copies is None else copies.add_to_logit(y, output_ids)

    def grow_from(self, smaller: "LinearOutput", kernel: np.ndarray, b: np.ndarray, frequencies: np.ndarray) -> None:
        """Copy the weights of the same output of fewer words, and add rows for the new words.

        Args:
            smaller: the output before, of |V| - J words.
            kernel: float [J, w], rows of the kernel for the new words. Of a tied output C has them already.
            b: float [J], their biases.
            frequencies: float [J], their shares of all tokens.
        """
        del frequencies
        if self.P is not None:
            self.P.assign(smaller.P)
        if not self.tied:
            self.kernel.assign(_append_rows(smaller.kernel, kernel))
        self.b.assign(_append_rows(smaller.b, b))

    def get_config(self) -> dict:
        return super().get_config() | {
            "weight_decay": self.weight_decay,
            "rank": self.rank,
            "tied": self.tied,
            "shortlist_size": self.shortlist_size,
            "outside_output": self.outside_output,
        }


def _append_rows(weight: keras.Variable, new_rows: np.ndarray) -> np.ndarray:
    return np.concatenate([ops.convert_to_numpy(weight), new_rows])


def append_held_out(held_out: np.ndarray, number: int) -> np.ndarray:
    """Return q of `set_unigram` with new words, each with the greatest share that a word has there.

    Args:
        held_out: float [|V|], q before.
        number: how many words are new.
    """
    held_out = np.append(held_out, np.full(number, held_out.max()))
    return held_out / held_out.sum()
