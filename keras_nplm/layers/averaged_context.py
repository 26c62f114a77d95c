"""Context layer of long contexts: near words concatenated, far words averaged."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import check_argument
from keras_nplm.io.shapes import check_averages, number_of_blocks
from keras_nplm.layers.arrays import list_edges, list_position_spans
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.segments import sum_until


@keras.saving.register_keras_serializable("keras_nplm")
class AveragedContext(ContextEmbedding):
    """Long context: near words concatenated as in the paper, far words averaged in spans.

        x = [ā_K, …, ā_1, C(w_{t-k}), …, C(w_{t-1})],    ā_j = L_j^{-1/2} sum_{w in span j} C(w)

    The position of a near word matters. Far words matter for the topic of the text. So a context of
    dozens of words costs K + k blocks of m numbers instead of n-1. Span 1 begins after the k near
    words and has L_1 words. The last span ends with the context. The factor L^{-1/2} gives all
    blocks of x about the same variance at the start.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        averages_after: ascending ints (k, …), how many words back each span begins. Example: (4,
            20) stands for 4 near words, an average of words 5 to 20, and an average of the words
            from 21 on.
        weight_decay, word_dropout, dropout: as in `ContextEmbedding`.

    Call arguments, returns: as in `ContextEmbedding`, with x float [B, (K + k) m].

    Reference: Sun & Iyyer (2021), Revisiting simple neural probabilistic language models, section
    3, "global aggregate".
    """

    options = ("averages_after",)

    def __init__(self, *args: Any, averages_after: Sequence[int], **kwargs: Any):
        super().__init__(*args, **kwargs)
        check_averages(averages_after)
        self.averages_after = tuple(averages_after)
        fix = "use ContextEmbedding for a context without averages."
        check_argument("averages_after", bool(self.averages_after), "one number or more", "()", fix)

    def build(self, input_shape: tuple) -> None:
        size = input_shape[-1]
        fix = "raise `order` or remove the last number."
        fits = self.averages_after[-1] < size
        wanted = f"below {size}, the number of context words"
        check_argument("averages_after", fits, wanted, list(self.averages_after), fix)
        super().build(input_shape)

    def position_spans(self, context_size: int) -> tuple[np.ndarray, np.ndarray] | None:
        return list_position_spans(context_size, self.averages_after)

    def num_single_words(self, context_size: int) -> int:
        return self.averages_after[0]

    def join(self, vectors: Tensor) -> Tensor:
        _, *edges = list_edges(self.context_size, self.averages_after).tolist()
        *spans, nearest = ops.split(vectors, edges, axis=1)
        # half precision is too coarse for a sum
        wide = keras.backend.result_type(vectors.dtype, "float32")
        averages = [ops.sum(ops.cast(span, wide), axis=1) * span.shape[1] ** -0.5 for span in spans]
        x = [ops.cast(average, vectors.dtype) for average in averages]
        if self.averages_after[0]:
            x.append(super().join(nearest))
        return ops.concatenate(x, axis=-1)

    def join_segments(self, vectors: Tensor, starts: Tensor | None) -> Tensor:
        # half precision is too coarse for a sum
        wide_dtype = keras.backend.result_type(vectors.dtype, "float32")
        edges = list_edges(self.context_size, self.averages_after)
        lengths = np.diff(edges)
        place = self._list_places(vectors, edges - 1)  # of the last word before each edge
        if starts is not None:
            place = ops.maximum(place, ops.expand_dims(starts, -1) - 1)  # [S, T, K+1]
        wide = ops.cast(vectors, wide_dtype)
        differences = np.diff(np.eye(len(edges)), axis=0) * lengths[:, None] ** -0.5
        x = ops.matmul(differences.astype(wide_dtype), sum_until(wide, place))  # [S, T, K, m]
        if starts is not None:
            missing = ops.cast(lengths - (place[:, :, 1:] - place[:, :, :-1]), wide.dtype)
            x += (
                ops.expand_dims(missing * lengths.astype(wide_dtype) ** -0.5, -1)
                * wide[:, None, :1]
            )
        x = ops.reshape(ops.cast(x, vectors.dtype), (-1, len(lengths) * self.embedding_dim))
        near = self.averages_after[0]
        if not near:
            return x
        return ops.concatenate([x, self._concatenate_words(vectors, starts, near)], axis=-1)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (
            input_shape[0],
            number_of_blocks(input_shape[1] + 1, self.averages_after) * self.embedding_dim,
        )
