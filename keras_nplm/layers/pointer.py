"""Pointer: scores of the context's words as copies, beside the logits of the vocabulary."""

import dataclasses
import itertools
import operator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.ids import BOS_ID, PAD_ID
from keras_nplm.io.shapes import count_matched
from keras_nplm.layers.arrays import LEAST, CopyArrays, convert_to_float32
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.ops import ConfiguredLayer, Tensor, l2_regularizer
from keras_nplm.layers.scores import Scores
from keras_nplm.layers.segments import Context

# a hundred such positions have the weight of one word in seven; farther ones less
_START = -6.5
_NEAR = 100
_NEVER = -1e9  # z of a position out of reach


@dataclasses.dataclass(frozen=True)
class CopyScores(Scores):
    """The context's words as outputs of their own, beside the outputs of the vocabulary.

        y'_w = ln( exp(y_w) + sum_{i: w_i = w} a_i )

    The T targets of a segment share its words: the contexts are B = S T. With single contexts T is
    1.
    """

    scores: Scores  # y
    # float [S, w, T], a of the w words of a segment for each target; 0 where nothing is copied
    weights: Tensor
    # int [S, w], the output that each position is a copy of; any id where the weights are 0
    ids: Tensor

    def take(self, places: Tensor) -> "CopyScores":
        weights, ids = (ops.take(part, places, axis=0) for part in self._separate())
        return CopyScores(self.scores.take(places), weights, ids)

    def _separate(self) -> tuple[Tensor, Tensor]:
        """Return weights and ids of each context apart, as if T were 1."""
        width, targets = self.weights.shape[1:]
        if targets == 1:
            return self.weights, self.ids
        weights = ops.reshape(ops.transpose(self.weights, (0, 2, 1)), (-1, width, 1))
        return weights, ops.repeat(self.ids, targets, axis=0)

    def log_z(self) -> Tensor:
        return self.add_to_normaliser(self.scores.log_z())

    def logit(self, word_ids: Tensor) -> Tensor:
        return self.add_to_logit(self.scores.logit(word_ids), word_ids)

    def for_training(self, word_ids: Tensor) -> tuple[Tensor, Tensor]:
        log_z, logit = self.scores.for_training(word_ids)
        return self.add_to_normaliser(log_z), self.add_to_logit(logit, word_ids)

    def add_to_normaliser(self, log_z: Tensor) -> Tensor:
        """Return ln(Z + sum_i a_i), float [B], from ln Z."""
        return _add(log_z, ops.reshape(ops.sum(self.weights, axis=1), (-1,)))

    def add_to_logit(self, y: Tensor, output_ids: Tensor) -> Tensor:
        """Return y'_w of one output per context, float [B], for int [B]."""
        output_ids = ops.reshape(output_ids, (-1, 1, self.weights.shape[2]))
        is_copy = ops.cast(ops.equal(ops.expand_dims(self.ids, 2), output_ids), self.weights.dtype)
        return _add(y, ops.reshape(ops.sum(self.weights * is_copy, axis=1), (-1,)))

    def logits_of(self, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return y'_w by sorted look-up."""
        number, width = ops.shape(self.ids)
        words = ops.sort(ops.cast(word_ids, "int32"))
        k = words.shape[0]
        targets = self.weights.shape[2]
        ids = ops.reshape(self.ids, (-1,))
        # of the first of equal words
        places = ops.minimum(ops.searchsorted(words, ids, side="left"), k - 1)
        places = ops.where(ops.equal(ops.take(words, places), ids), places, k)  # k: none of them
        rows = ops.repeat(ops.arange(number, dtype="int32"), width)
        weights = ops.reshape(self.weights, (-1, targets))
        sums = ops.reshape(
            ops.segment_sum(weights, places * number + rows, (k + 1) * number), (k + 1, -1)
        )
        firsts = ops.searchsorted(words, ops.cast(word_ids, "int32"), side="left")
        totals = ops.transpose(ops.take(sums, firsts, axis=0))
        return _add(self.scores.logits_of(word_ids), totals) + offset

    def logits(self) -> Tensor:
        """Return y'_w of all outputs, with operations that LiteRT and ONNX have.

        The first of equal words carries the difference of y'_w and y_w. The others point to
        `<pad>`, which has none.
        """
        y = self.scores.logits()
        weights, all_ids = self._separate()
        width = all_ids.shape[1]
        same = ops.equal(ops.expand_dims(all_ids, 2), ops.expand_dims(all_ids, 1))  # [B, w, w]
        sums = ops.sum(ops.expand_dims(weights[:, :, 0], 1) * ops.cast(same, weights.dtype), axis=2)
        is_repeated = ops.any(
            ops.logical_and(same, ops.expand_dims(ops.tri(width, k=-1, dtype="bool"), 0)), axis=2
        )
        of_words = ops.take_along_axis(y, all_ids, axis=1)
        difference = ops.where(
            is_repeated, ops.zeros_like(of_words), _add(of_words, sums) - of_words
        )
        ids = ops.where(is_repeated, ops.zeros_like(all_ids) + PAD_ID, all_ids)
        return y + _scatter_rows(difference, ids, y)


def _add(y: Tensor, total: Tensor) -> Tensor:
    """Return ln(exp(y) + total). A total of 0 gives y, if y is above -60."""
    return y + ops.softplus(ops.log(total + LEAST) - y)


def _scatter_rows(values: Tensor, columns: Tensor, like: Tensor) -> Tensor:
    """Return zeros [B, V] as `like` with values [B, n] added at columns int [B, n] of each row."""
    number, width = ops.shape(columns)
    rows = ops.reshape(ops.repeat(ops.arange(number, dtype="int32"), width), (-1, width))
    return ops.scatter(ops.stack([rows, columns], axis=-1), values, ops.shape(like))


@keras.saving.register_keras_serializable("keras_nplm")
class Pointer(ConfiguredLayer):
    """Pointer (copy mechanism): a weight for each word of the context, to predict this word again.

        z_i = u_i + C(w_i) · (v + Q f) + C(w_{i-1}) · (R f)
              + sum_{k=1}^3 r_k [the k words before i and t are equal]
        a_i = σ(z_i) = 1/(1 + exp(-z_i))
        P(w | context) = ( exp(y_w) + sum_{i: w_i = w} a_i ) / ( sum_j exp(y_j) + sum_i a_i )

    f are the features of the context and y the logits of the vocabulary. The positions of the
    context are outputs of the same softmax as the words. Names and topic words that a text repeats
    gain most. The term with R looks for a position after a word like the one before the target t.
    The last term looks for a phrase that the text repeats. It leaves out the first three words of
    the context.
    σ bounds the weight of a position by 1, next to a Z near 1: without a bound, training at a high
    rate diverges. Q, R, v and r start at 0, and u at -6.5, or -6.5 - ln(d / 100) for a distance d
    of more than 100 words.

    Features are float [B, w], vectors C(w_i) [B, n-1, m], oldest word first, and a float [B, n-1]:
    0 for a position of `<pad>` or `<s>`. Weight decay is on Q, R and v, not on the biases u and r.

    Reference: Gu, Lu, Li & Li (2016), Incorporating copying mechanism in sequence-to-sequence
    learning, equation 4; Merity, Xiong, Bradbury & Socher (2017), Pointer sentinel mixture models.
    """

    options = ("weight_decay",)

    def __init__(self, weight_decay: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.weight_decay = weight_decay

    def build(self, features_shape: tuple, vectors_shape: tuple) -> None:
        size, m = vectors_shape[1:]
        matrix = dict(
            initializer="zeros", regularizer=l2_regularizer(self.weight_decay), autocast=False
        )
        self.Q = self.add_weight(name="Q", shape=(features_shape[-1], m), **matrix)
        self.R = self.add_weight(name="R", shape=(features_shape[-1], m), **matrix)
        self.v = self.add_weight(name="v", shape=(m,), **matrix)
        distance = np.arange(size, 0, -1)
        start = keras.initializers.Constant(_START - np.log(np.maximum(1, distance / _NEAR)))
        self.u = self.add_weight(name="u", shape=(size,), initializer=start, autocast=False)
        self.r = self.add_weight(
            name="r", shape=(count_matched(size),), initializer="zeros", autocast=False
        )

    def add_copies(
        self, scores: Scores, features: Tensor, context: Context, head: Head
    ) -> CopyScores:
        """Return scores with the copies of the contexts' words that are outputs of a head."""
        if context.ids.shape[1] == self.u.shape[0]:
            # a segment of one target, which has one more word before its words
            vectors = ops.pad(context.vectors, [[0, 0], [1, 0], [0, 0]])
            ids = ops.pad(context.ids, [[0, 0], [1, 0]])
            weights = self.weigh_segments(features, vectors, ids, None)[:, 1:]
        else:
            weights = self.weigh_segments(features, context.vectors, context.ids, context.starts)
        if head.num_outputs == head.vocabulary_size:
            return CopyScores(scores, weights, context.ids)
        is_output = context.ids < head.num_outputs
        weights *= ops.cast(ops.expand_dims(is_output, 2), weights.dtype)
        return CopyScores(scores, weights, ops.where(is_output, context.ids, PAD_ID))

    def weigh_segments(
        self, features: Tensor, vectors: Tensor, ids: Tensor, starts: Tensor | None
    ) -> Tensor:
        """Return a of the words of segments for each target, float [S, w, T]; see
        `ContextEmbedding.read_segments`.
        """
        width = ids.shape[1]
        size = self.u.shape[0]
        targets = width - size
        Q, R, v = (ops.cast(weight, features.dtype) for weight in (self.Q, self.R, self.v))
        products = []  # [S, w, T]
        for query in (ops.matmul(features, Q) + v, ops.matmul(features, R)):
            of_segments = ops.reshape(query, (-1, targets, vectors.shape[2]))
            product = ops.matmul(vectors, ops.transpose(of_segments, (0, 2, 1)))
            products.append(ops.cast(product, self.accumulator_dtype))
        of_words, of_previous = products
        place = np.arange(width, dtype=np.int32)[:, None]
        first = 1 + np.arange(targets, dtype=np.int32)
        # nothing is before the first of the n-1 words, and `<s>` before the first word of a
        # sentence
        previous = ops.pad(of_previous[:, :-1], [[0, 0], [1, 0], [0, 0]]) * (place > first).astype(
            self.accumulator_dtype
        )
        is_word = ops.logical_and(ops.not_equal(ids, PAD_ID), ops.not_equal(ids, BOS_ID))
        is_word = is_word[:, :, None]
        if starts is not None:
            starts = ops.expand_dims(starts, 1)
            outside = of_previous[:, :1] * ops.cast(starts > first, self.accumulator_dtype)
            previous = ops.where(place == starts, outside, previous)
            is_word = ops.logical_and(is_word, place >= starts)
        z = of_words + previous + self._match(ids)
        # u by distance: each row is the row before, moved by one place
        u = ops.pad(
            ops.cast(self.u, self.accumulator_dtype), [[1, targets]], constant_values=_NEVER
        )
        u = ops.reshape(ops.tile(u, targets)[: targets * width], (targets, width))
        out_of_reach = ops.where(is_word, ops.zeros((), u.dtype), _NEVER)
        return ops.sigmoid(z + (ops.transpose(u) + out_of_reach))

    def _match(self, ids: Tensor) -> Tensor:
        """Return the last term of z, float [S, w, T]."""
        targets = ids.shape[1] - self.u.shape[0]
        longest = self.r.shape[0]
        # with the words before the targets
        equal = ops.equal(ids[:, :, None], ids[:, None, 1 - targets - longest :])
        # words of the context before i
        seen = np.arange(ids.shape[1])[:, None] - np.arange(1 - longest, targets)
        equal = ops.cast(equal, self.accumulator_dtype) * (seen >= longest).astype(
            self.accumulator_dtype
        )
        equal = ops.pad(equal, [[0, 0], [longest, 0], [0, 0]])
        parts = [
            equal[:, longest - k : -k, longest - k : longest - k + targets]
            for k in range(1, longest + 1)
        ]
        runs = ops.stack(list(itertools.accumulate(parts, operator.mul)))
        products = ops.matmul(ops.cast(self.r, runs.dtype)[None], ops.reshape(runs, (longest, -1)))
        return ops.reshape(products, (-1, *runs.shape[2:]))

    @property
    def biases(self) -> list[keras.Variable]:
        return [self.u, self.r]  # v has weight decay

    def list_arrays(self) -> dict[str, Any] | None:
        weights = (self.Q, self.R, self.v, self.u, self.r)
        return {"weigh_copies": CopyArrays(*map(convert_to_float32, weights))}
