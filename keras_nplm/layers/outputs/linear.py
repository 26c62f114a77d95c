"""Linear output layers: one row of a kernel and one bias per word; low rank, tied kernels, short-lists, growth."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.special_ids import PAD_ID, SPECIALS
from keras_nplm.io.errors import check_argument
from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.base import BiasedOutput
from keras_nplm.layers.pointer import Copies, Features
from keras_nplm.layers.softmax import linear_log_prob, linear_logit, linear_softmax


class LinearOutput(BiasedOutput):
    """Base class of output layers whose logits are linear in the features.

        y = b + [U W] f,    or of low rank y = b + K P f

    The kernel has one row per output, [outputs, w], so that a few words cost a few rows.

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

    options = ("weight_decay", "rank", "tied", "shortlist_size", "outside_output")
    has_output_vectors = True

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
        wanted = f"1 to {words}, or None"
        check_argument("shortlist_size", in_range, wanted, shortlist_size, "leave it out for all words.")
        no_list = whole and outside_output
        check_argument("outside_output", not no_list, "False without `shortlist_size`", True, "give `shortlist_size`.")
        check_argument("tied", whole or not tied, "False with `shortlist_size`", True, "C has a row for every word.")
        super().__init__(vocabulary_size, **kwargs)
        self.weight_decay = weight_decay
        self.rank = rank
        self.tied = tied
        self.shortlist_size = shortlist_size
        self.outside_output = outside_output
        self.uses_embedding = tied
        self.kernel = self.P = None

    def tie(self, embedding: keras.Variable) -> None:
        self.kernel = embedding

    def build(self, input_shape: tuple) -> None:
        self.check_tied(self.kernel)
        width = self.kernel.shape[1] if self.tied else self.rank
        if width:
            self.P = self.add_matrix("P", (input_shape[-1], width))
        if self.kernel is None:
            self.kernel = self.add_matrix("UW", (self.num_outputs, width or input_shape[-1]))
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

    def project(self, features: Tensor | Features, training: bool = False) -> Features:
        """Return the input of the kernel, f or P f, in `accumulator_dtype`, and the copies."""
        features = Features.of(features)
        activations = ops.cast(features.activations, self.accumulator_dtype)
        return Features(self.project_features(activations), features.copies)

    def project_features(self, features: Tensor) -> Tensor:
        """Return f or P f, float [B, r], from features without copies."""
        return features if self.P is None else ops.matmul(features, ops.cast(self.P, features.dtype))

    def copy_words(self, weights: Tensor, context_ids: Tensor) -> Copies:
        """Return the copies of words, int [S, w], with weights [S, w] or [S, w, T]; 0 for a word without an output."""
        weights = weights if len(weights.shape) == 3 else ops.expand_dims(weights, 2)
        ids = self.output_ids(ops.cast(context_ids, "int32"))
        has_output = ops.logical_and(ids >= 0, ids < self.num_outputs)
        if self.num_outputs < self.vocabulary_size:
            weights = weights * ops.cast(ops.expand_dims(has_output, 2), weights.dtype)
        return Copies(weights, ops.where(has_output, ids, PAD_ID))

    def full_kernel(self) -> Tensor:
        """Return [U W], float [outputs, w], or K P of low rank."""
        return self.kernel if self.P is None else ops.matmul(self.kernel, ops.transpose(self.P))

    def logits(self, features: Tensor) -> Tensor:
        """Return y of all outputs, float [B, outputs], with copies."""
        projected, copies, _ = self.project(features)
        kernel, bias = (ops.cast(weight, self.accumulator_dtype) for weight in (self.kernel, self.b))
        y = ops.matmul(projected, ops.transpose(kernel)) + bias
        return y if copies is None else copies.add_to_logits(y)

    def log_prob(self, features: Tensor, output_ids: Tensor, which: Tensor | None = None) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        projected, copies, _ = self.project(features)
        return linear_log_prob(projected, self.kernel, self.b, output_ids, which, copies) * known

    def negative_log_likelihood(self, features: Tensor, output_ids: Tensor) -> Tensor:
        output_ids, known = self.clip_ids(output_ids)
        log_z, logit, _ = self.softmax(features, output_ids, self.accumulator_dtype)
        return (log_z - logit) * known

    def softmax(
        self, features: Tensor, output_ids: Tensor, dtype: str, expected: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return log Z and the logits of the targets, with copies, and the expected y without; see `linear_softmax`."""
        projected, copies, _ = self.project(features)
        log_z, logit, mean = linear_softmax(projected, self.kernel, self.b, output_ids, dtype, expected)
        if copies is not None:
            log_z, logit = copies.add_to_normaliser(log_z), copies.add_to_logit(logit, output_ids)
        return log_z, logit, mean

    def logits_of(self, projected: Features, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return y of a few words, the same in all contexts, plus `offset` [k]: float [B, k], for int [k]."""
        projected, copies, _ = projected
        kernel, bias = (ops.cast(rows(weight, word_ids), projected.dtype) for weight in (self.kernel, self.b))
        if copies is None:
            return ops.matmul(projected, ops.transpose(kernel)) + (bias + offset)
        return copies.add_to_logits_of(ops.matmul(projected, ops.transpose(kernel)) + bias, word_ids) + offset

    def logit(self, projected: Features, output_ids: Tensor) -> Tensor:
        """Return y of one output per context, float [B], for int [B]."""
        projected, copies, _ = projected
        y = linear_logit(projected, self.kernel, self.b, output_ids)
        return y if copies is None else copies.add_to_logit(y, output_ids)

    def grow_from(self, smaller: "LinearOutput", kernel: np.ndarray, b: np.ndarray, frequencies: np.ndarray) -> None:
        """Copy the weights of an output of fewer words; add rows [J, w], biases and the new words' shares of tokens."""
        if self.P is not None:
            self.P.assign(smaller.P)
        if not self.tied:
            self.kernel.assign(_append_rows(smaller.kernel, kernel))
        self.b.assign(_append_rows(smaller.b, b))


def _append_rows(weight: keras.Variable, new_rows: np.ndarray) -> np.ndarray:
    return np.concatenate([ops.convert_to_numpy(weight), new_rows])


def append_held_out(held_out: np.ndarray, number: int) -> np.ndarray:
    """Return q of `set_unigram`, float [|V|], with a number of new words, each with the greatest share in q."""
    held_out = np.append(held_out, np.full(number, held_out.max()))
    return held_out / held_out.sum()
