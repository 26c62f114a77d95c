"""Context layers on segments: T consecutive targets share one look-up of their words."""

import abc
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_nplm.data.boundary import context_end
from keras_nplm.data.ids import BOS_ID
from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import ConfiguredLayer, Tensor


class Context(NamedTuple):
    """What a network reads: S segments of T targets each, which are B = S T contexts.

    T is 1 for single contexts.

    The vectors and ids of a segment begin with `<s>`, for the words that a target does not see.
    """

    x: Tensor  # word features, float [B, w]
    vectors: Tensor  # C(w) of the words that the targets of a segment share, float [S, words, m]
    ids: Tensor  # int32 [S, words]
    # place of the first word that each target sees, int [S, T]; None: all see n-1 words
    starts: Tensor | None


def are_segments(inputs: Any) -> bool:
    """Return whether the inputs of a network are segments, `{"segments": ids}`, and no single
    contexts.
    """
    return isinstance(inputs, dict) and "segments" in inputs


class SegmentEmbedding(ConfiguredLayer, abc.ABC):
    """Base class of context layers: the features x of all targets of a segment from the vectors of
    its words.
    """

    reads_segments = True  # False: single contexts only

    def read_segments(
        self, ids: Tensor, boundary: str, training: bool = False, sum_gradient: bool = True
    ) -> Context:
        """Read the T targets of each segment, int [S, n-1+T-1], with one lookup for each word.

        The words up to the last `</s>` before a target count as `<s>`; with boundary `"text"`, up
        to the last `<s>`.
        """
        width = ids.shape[1] if len(ids.shape) == 2 else None
        if width is None or width < self.context_size:
            raise InputError(
                f"`segments` must be [S, n-1+T-1], {self.context_size} words or more, of a width "
                "that tf.data knows. "
                f"Received: {list(ids.shape)}. "
                "Fix: use `ngram_dataset(segment=…)`, and call `compile` before segments of "
                "another length."
            )
        ids = ops.pad(ops.cast(ids, "int32"), [[0, 0], [1, 0]], constant_values=BOS_ID)
        vectors = self.drop_words(self.vectors(ids, training, sum_gradient), training=training)
        starts = None
        end = context_end(boundary)
        if end is not None:
            place = np.arange(ids.shape[1], dtype=np.int32)
            first = place[: -self.context_size, None]
            is_end = ops.logical_and(
                ops.expand_dims(ops.equal(ids, end), 1), place <= first + self.context_size
            )
            starts = 1 + ops.max(ops.where(is_end, place, first), axis=2)
        x = self.drop(self.join_segments(vectors, starts), training=training)
        return Context(x, vectors, ids, starts)

    def join_segments(self, vectors: Tensor, starts: Tensor | None) -> Tensor:
        """Return x of all targets, float [S T, …], from vectors and starts of `read_segments`."""
        words = self._concatenate_words(vectors, starts, self.context_size)
        return self.join(ops.reshape(words, (-1, self.context_size, self.embedding_dim)))

    @abc.abstractmethod
    def join(self, vectors: Tensor) -> Tensor:
        """Return x of single contexts, float [B, w], from the vectors of their words, [B, n-1,
        m].
        """

    def _concatenate_words(self, vectors: Tensor, starts: Tensor | None, number: int) -> Tensor:
        """Return the vectors of the last words before each target, float [S T, number m]."""
        place = self._list_places(vectors, np.arange(-number, 0) + self.context_size)
        if starts is not None:
            place = ops.where(place >= ops.expand_dims(starts, -1), place, 0)  # there is `<s>`
        return ops.reshape(take_rows(vectors, place), (-1, number * self.embedding_dim))

    def _list_places(self, vectors: Tensor, distances: np.ndarray) -> np.ndarray:
        """Return places among the vectors, int [1, T, …], by their distance from the first of the
        n-1 words.
        """
        targets = vectors.shape[1] - self.context_size
        return (1 + np.arange(targets)[:, None] + distances)[None].astype(np.int32)


def take_rows(vectors: Tensor, places: Tensor) -> Tensor:
    """Return the vectors [S, N, m] at places of their segment: float [S, …, m], for int [S or 1,
    …].
    """
    number, size = ops.shape(vectors)[:2]
    firsts = ops.reshape(
        ops.arange(number, dtype="int32") * size, (-1, *[1] * (len(places.shape) - 1))
    )
    return ops.take(ops.reshape(vectors, (-1, vectors.shape[-1])), places + firsts, axis=0)


def sum_until(vectors: Tensor, places: Tensor, block: int = 16) -> Tensor:
    """Return sum_{j <= i} v_j of vectors [S, N, m] at places i, int [S or 1, T, K]: float [S, T, K,
    m].
    """
    size, m = vectors.shape[1:]
    blocks = -(-size // block)
    dtype = keras.backend.standardize_dtype(vectors.dtype)
    if size % block:
        vectors = ops.pad(vectors, [[0, 0], [0, blocks * block - size], [0, 0]])
    # sums within blocks and of the blocks before, by triangular matrices: faster than `cumsum`
    sums = ops.matmul(np.tri(block, dtype=dtype), ops.reshape(vectors, (-1, blocks, block, m)))
    sums = ops.reshape(sums, (-1, blocks * block, m))
    totals = take_rows(sums, np.arange(block - 1, blocks * block, block, dtype=np.int32)[None])
    before = ops.matmul(np.tri(blocks, k=-1, dtype=dtype), totals)
    return take_rows(sums, places) + take_rows(before, places // block)
