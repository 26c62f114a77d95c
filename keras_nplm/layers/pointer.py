"""Pointer: scores of the context's words as copies, beside the logits of the vocabulary."""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_nplm.data.vocabulary import BOS_ID, PAD_ID
from keras_nplm.layers.ops import Tensor, l2_regularizer

NO_COPY = -1e9  # the score of a position that is no copy of a word
_LOWEST = -1e4  # so that exp(-1e9 - g) is 0 where all positions are no copies
_START = -6.5  # a hundred such positions have the weight of one word in seven
_LEAST = 1e-37  # about the least normal number of float32


class Copies(NamedTuple):
    """The context's words as outputs of their own, beside the outputs of the vocabulary.

        y'_w = ln( exp(y_w) + sum_{i: w_i = w} exp(e_i) )

    Attributes:
        scores: float [B, n-1], e.
        ids: int [B, n-1], the output that each position is a copy of; any id where the score is -1e9.
    """

    scores: Tensor
    ids: Tensor

    def _exponentials(self) -> tuple[Tensor, Tensor]:
        """Return exp(e - g), float [B, n-1], and the greatest score g, float [B, 1]."""
        greatest = ops.stop_gradient(ops.maximum(ops.max(self.scores, axis=1, keepdims=True), _LOWEST))
        return ops.exp(self.scores - greatest), greatest

    def take(self, rows: Tensor) -> "Copies":
        """Return the copies of the contexts of int [T] rows."""
        return Copies(ops.take(self.scores, rows, axis=0), ops.take(self.ids, rows, axis=0))

    def add_to_normaliser(self, log_z: Tensor) -> Tensor:
        """Return ln(Z + sum_i exp(e_i)), float [B], from ln Z."""
        exponentials, greatest = self._exponentials()
        return _add(log_z, ops.sum(exponentials, axis=1), greatest[:, 0])

    def add_to_logit(self, y: Tensor, output_ids: Tensor) -> Tensor:
        """Return y'_w of one output per context, float [B], for int [B]."""
        exponentials, greatest = self._exponentials()
        is_copy = ops.cast(ops.equal(self.ids, ops.expand_dims(output_ids, -1)), exponentials.dtype)
        return _add(y, ops.sum(exponentials * is_copy, axis=1), greatest[:, 0])

    def add_to_logits_of(self, y: Tensor, output_ids: Tensor) -> Tensor:
        """Return y'_w of a few outputs, the same in all contexts: float [B, k], for int [k].

        Each context word is looked up among the sorted outputs, so that [B, n-1, k] comparisons are not needed.
        """
        exponentials, greatest = self._exponentials()
        number, width = ops.shape(self.ids)
        outputs = ops.sort(ops.cast(output_ids, "int32"))
        k = outputs.shape[0]
        ids = ops.reshape(self.ids, (-1,))
        places = ops.minimum(ops.searchsorted(outputs, ids, side="left"), k - 1)  # of the first of equal outputs
        is_copy = ops.cast(ops.equal(ops.take(outputs, places), ids), exponentials.dtype)
        rows = ops.repeat(ops.arange(number, dtype="int32"), width)
        sums = ops.segment_sum(ops.reshape(exponentials, (-1,)) * is_copy, places * number + rows, k * number)
        sums = ops.reshape(sums, (k, number))
        firsts = ops.searchsorted(outputs, ops.cast(output_ids, "int32"), side="left")
        return _add(y, ops.transpose(ops.take(sums, firsts, axis=0)), greatest)

    def add_to_logits(self, y: Tensor) -> Tensor:
        """Return y'_w of all outputs, float [B, outputs], with operations that LiteRT and ONNX have.

        The first of equal words carries the difference of y'_w and y_w. The others point to `<pad>`, which has none.
        """
        exponentials, greatest = self._exponentials()
        width = self.ids.shape[1]
        same = ops.equal(ops.expand_dims(self.ids, 2), ops.expand_dims(self.ids, 1))  # [B, n-1, n-1]
        sums = ops.sum(ops.expand_dims(exponentials, 1) * ops.cast(same, exponentials.dtype), axis=2)
        is_repeated = ops.any(ops.logical_and(same, ops.expand_dims(ops.tri(width, k=-1, dtype="bool"), 0)), axis=2)
        of_words = ops.take_along_axis(y, self.ids, axis=1)
        difference = ops.where(is_repeated, ops.zeros_like(of_words), _add(of_words, sums, greatest) - of_words)
        ids = ops.where(is_repeated, ops.zeros_like(self.ids) + PAD_ID, self.ids)
        return y + _scatter_rows(difference, ids, y)


def _add(y: Tensor, total: Tensor, greatest: Tensor) -> Tensor:
    """Return ln(exp(y) + total exp(greatest)); a total of 0 gives y."""
    ratio = ops.log(ops.maximum(total, _LEAST)) + (greatest - y)
    return y + ops.where(total > 0, ops.softplus(ratio), 0)


def _scatter_rows(values: Tensor, columns: Tensor, like: Tensor) -> Tensor:
    """Return zeros [B, V] as `like` with values [B, n] added at columns int [B, n] of each row."""
    number, width = ops.shape(columns)
    rows = ops.reshape(ops.repeat(ops.arange(number, dtype="int32"), width), (-1, width))
    return ops.scatter(ops.stack([rows, columns], axis=-1), values, ops.shape(like))


class Features(NamedTuple):
    """The input of an output layer in a network with a pointer: activations, float [B, w], and copies."""

    activations: Tensor
    copies: Copies | None = None

    @classmethod
    def of(cls, features: "Tensor | Features") -> "Features":
        """Return features as a tuple; a tensor has no copies."""
        return features if isinstance(features, cls) else cls(features)


@keras.saving.register_keras_serializable("keras_nplm")
class Pointer(keras.layers.Layer):
    """Pointer (copy mechanism): a score for each word of the context, to predict this word again.

        z_i = u_i + C(w_i) · (v + Q f) + C(w_{i-1}) · (R f),    e_i = ln σ(z_i),    σ(z) = 1/(1 + exp(-z))
        P(w | context) = ( exp(y_w) + sum_{i: w_i = w} exp(e_i) ) / ( sum_j exp(y_j) + sum_i exp(e_i) )

    f are the features of the context and y the logits of the vocabulary. The positions of the context are outputs of
    the same softmax as the words. Names and topic words that a text repeats gain most. The second term looks for a
    position that follows a word like those before the target. σ bounds the weight exp(e_i) of a position by 1, next to
    a Z near 1: without a bound, training at a high rate diverges. Q, R and v start at 0, and u at -6.5.

    Args:
        weight_decay: float, the weight decay on Q, R and v. The bias u has none.

    Call arguments:
        features: float [B, w], f.
        vectors: float [B, n-1, m], C(w_i), oldest word first.
        context_ids: int [B, n-1]. A position of `<pad>` or `<s>` is never copied.

    Returns:
        e, float [B, n-1]; -1e9 where nothing is copied.

    Example:

    >>> import numpy as np
    >>> scores = Pointer()(np.ones((1, 3), "float32"), np.ones((1, 2, 4), "float32"), np.array([[0, 5]]))
    >>> scores.numpy().tolist()
    [[-1000000000.0, -6.501502513885498]]

    Reference: Gu, Lu, Li & Li (2016), Incorporating copying mechanism in sequence-to-sequence learning, equation 4;
    Merity, Xiong, Bradbury & Socher (2017), Pointer sentinel mixture models.
    """

    def __init__(self, weight_decay: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.weight_decay = weight_decay

    @property
    def score_dtype(self) -> str:
        """The dtype of scores: float64 if the weights are, else float32."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    def build(self, features_shape: tuple, vectors_shape: tuple, context_ids_shape: tuple | None = None) -> None:
        size, m = vectors_shape[1:]
        matrix = dict(initializer="zeros", regularizer=l2_regularizer(self.weight_decay), autocast=False)
        self.Q = self.add_weight(name="Q", shape=(features_shape[-1], m), **matrix)
        self.R = self.add_weight(name="R", shape=(features_shape[-1], m), **matrix)
        self.v = self.add_weight(name="v", shape=(m,), **matrix)
        start = keras.initializers.Constant(_START)
        self.u = self.add_weight(name="u", shape=(size,), initializer=start, autocast=False)

    def call(self, features: Tensor, vectors: Tensor, context_ids: Tensor) -> Tensor:
        queries = [ops.matmul(features, ops.cast(weight, features.dtype)) for weight in (self.Q, self.R)]
        queries[0] = queries[0] + ops.cast(self.v, features.dtype)
        products = ops.matmul(vectors, ops.stack(queries, axis=2))  # [B, n-1, 2]
        products = ops.cast(products, self.score_dtype)
        of_previous = ops.pad(products[:, :-1, 1], [[0, 0], [1, 0]])
        scores = ops.log_sigmoid(ops.cast(self.u, self.score_dtype) + products[:, :, 0] + of_previous)
        is_copy = ops.logical_and(ops.not_equal(context_ids, PAD_ID), ops.not_equal(context_ids, BOS_ID))
        return ops.where(is_copy, scores, NO_COPY)

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay."""
        return [self.u]

    def compute_output_shape(
        self, features_shape: tuple, vectors_shape: tuple, context_ids_shape: tuple | None = None
    ) -> tuple:
        return vectors_shape[:2]

    def get_config(self) -> dict:
        return super().get_config() | {"weight_decay": self.weight_decay}
