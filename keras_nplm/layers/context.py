"""Context layers: look up the feature vectors of the context words and concatenate them."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.vocabulary import PAD_ID
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.shapes import check_averages, number_of_blocks
from keras_nplm.layers.ops import Tensor, l2_regularizer, rows, set_width, zero_masked_rows


@keras.saving.register_keras_serializable("keras_nplm")
class ContextEmbedding(keras.layers.Layer):
    """Word embedding of the context: the feature vectors of its words, concatenated.

        x = [C(w_{t-n+1}), …, C(w_{t-1})]

    One lookup in the one matrix C, shared by all positions. The paper writes x with the nearest word first. Here x
    keeps the order of the text, which permutes the columns of H and W and changes nothing else. A position that holds
    `<pad>` (id 0) adds a zero vector. A position that holds an id outside the vocabulary adds NaN.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        weight_decay: float, the paper's weight decay on C.
        word_dropout: float in [0, 1), the share of context words that training leaves out.
        dropout: float in [0, 1), the share of the components of x that training leaves out.

    Call arguments:
        context_ids: int [B, n-1], oldest word first.
        training: bool, whether dropout is active.
        return_vectors: bool, whether to return the vectors of the words, too.

    Returns:
        x, float [B, (n-1) m]; or x and the vectors, float [B, n-1, m].

    Example:

    >>> import numpy as np
    >>> embed = ContextEmbedding(vocabulary_size=5, embedding_dim=2)
    >>> embed(np.array([[0, 3, 4]])).shape
    TensorShape([1, 6])

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 2.
    """

    sum_gradient = True  # off in the training step of NPLM, which sums all gradients; see `keras_nplm.layers.ops.rows`

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        weight_decay: float = 0.0,
        word_dropout: float = 0.0,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.weight_decay = weight_decay
        self.word_dropout = word_dropout
        self.dropout = dropout
        options = dict(noise_shape=(None, None, 1), name="drop_words", dtype=self.dtype_policy)
        self.drop_words = keras.layers.Dropout(word_dropout, **options)
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        self.context_size = input_shape[-1]
        self.C = self.add_weight(
            name="C",
            shape=(self.vocabulary_size, self.embedding_dim),
            initializer=keras.initializers.RandomNormal(stddev=0.05),
            regularizer=l2_regularizer(self.weight_decay),
            autocast=False,
        )
        self.drop_words.build((*input_shape, self.embedding_dim))
        self.drop.build(self.compute_output_shape(input_shape))

    def call(
        self, context_ids: Tensor, training: bool = False, return_vectors: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        vectors = self.drop_words(self.vectors(context_ids, training), training=training)  # [B, n-1, m]
        x = self.drop(self.join(vectors), training=training)  # [B, (n-1) m]
        return (x, vectors) if return_vectors else x

    def vectors(self, context_ids: Tensor, training: bool = False) -> Tensor:
        """Return C(w) of each context word, float [B, n-1, m]."""
        context_ids = ops.cast(context_ids, "int32")  # Keras feeds floats to a functional model by default
        context_ids = set_width("context_ids", context_ids, self.context_size)
        fits = len(context_ids.shape) == 2 and self.context_size in (None, context_ids.shape[1])
        check_argument(
            "context_ids",
            fits,
            f"[B, {self.context_size or 'n-1'}]",
            list(context_ids.shape),
            "give the n-1 words before the target.",
        )
        vectors = ops.cast(rows(self.C, context_ids, sum_gradient=self.sum_gradient), self.compute_dtype)
        present = ops.cast(ops.not_equal(context_ids, PAD_ID), vectors.dtype)
        known = ops.logical_and(context_ids >= 0, context_ids < self.vocabulary_size)
        mask = ops.expand_dims(ops.where(known, present, float("nan")), -1)
        return zero_masked_rows(vectors, mask) if training else vectors * mask

    def join(self, vectors: Tensor) -> Tensor:
        """Return x, float [B, (n-1) m], from the vectors [B, n-1, m]."""
        return ops.reshape(vectors, (-1, vectors.shape[1] * self.embedding_dim))

    def position_spans(self, context_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the block of m components of x that each context position adds to, and its scale.

        Args:
            context_size: int, n-1.

        Returns:
            int [n-1] and float32 [n-1]: here each position has a block of its own, with scale 1.
        """
        return np.arange(context_size), np.ones(context_size, np.float32)

    def num_single_words(self, context_size: int) -> int:
        """Return how many of the nearest words have a block of x of their own."""
        return context_size

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], input_shape[1] * self.embedding_dim)

    def get_config(self) -> dict:
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "weight_decay": self.weight_decay,
            "word_dropout": self.word_dropout,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class AveragedContext(ContextEmbedding):
    """Long context: near words concatenated as in the paper, far words averaged in spans.

        x = [ā_K, …, ā_1, C(w_{t-k}), …, C(w_{t-1})],    ā_j = L_j^{-1/2} sum_{w in span j} C(w)

    The position of a near word matters. Far words matter for the topic of the text. So a context of dozens of words
    costs K + k blocks of m numbers instead of n-1. Span 1 begins after the k near words and has L_1 words. The last
    span ends with the context. The factor L^{-1/2} gives all blocks of x about the same variance at the start.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        averages_after: ascending ints (k, …), how many words back each span begins. Example: (4, 20) stands for 4 near
            words, an average of words 5 to 20, and an average of the words from 21 on.
        weight_decay, word_dropout, dropout: as in `ContextEmbedding`.

    Call arguments:
        context_ids: int [B, n-1], oldest word first.
        training: bool, whether dropout is active.

    Returns:
        float [B, (K + k) m].

    Raises:
        InputError: `averages_after` does not ascend, or (in `build`) reaches the end of the context.

    Example:

    >>> embed = AveragedContext(vocabulary_size=9, embedding_dim=2, averages_after=(1,))
    >>> x = embed(np.array([[5, 6, 7, 8, 4]]))
    >>> C = embed.C.numpy()
    >>> bool(np.allclose(x, [[*C[5:9].sum(axis=0) / 2, *C[4]]], atol=1e-6))
    True

    Reference: Sun & Iyyer (2021), Revisiting simple neural probabilistic language models, section 3, "global
    aggregate".
    """

    def __init__(self, *args: Any, averages_after: Sequence[int], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.averages_after = tuple(averages_after)
        check_averages(self.averages_after)
        if not self.averages_after:
            raise InputError(
                "`averages_after` must have one number or more. Received: (). Fix: use ContextEmbedding for a context "
                "without averages."
            )

    def build(self, input_shape: tuple) -> None:
        if self.averages_after[-1] >= input_shape[-1]:
            raise InputError(
                f"`averages_after` must be below {input_shape[-1]}, the number of context words. "
                f"Received: {list(self.averages_after)}. Fix: raise `order` or remove the last number."
            )
        super().build(input_shape)

    def position_spans(self, context_size: int) -> tuple[np.ndarray, np.ndarray]:
        near, *others = self.averages_after
        edges = [context_size, *reversed(others), near]  # words back, at the ends of the spans
        lengths = -np.diff(edges)
        spans = len(lengths)
        block = np.concatenate([np.repeat(np.arange(spans), lengths), spans + np.arange(near)])
        scale = np.concatenate([np.repeat(lengths**-0.5, lengths), np.ones(near)])
        return block, scale.astype(np.float32)

    def num_single_words(self, context_size: int) -> int:
        return self.averages_after[0]

    def join(self, vectors: Tensor) -> Tensor:
        near, *others = self.averages_after
        number = vectors.shape[1]
        edges = [number - edge for edge in (*reversed(others), near)]
        *spans, nearest = ops.split(vectors, edges, axis=1)
        x = [ops.sum(ops.cast(span, "float32"), axis=1) * span.shape[1] ** -0.5 for span in spans]
        x = [ops.cast(average, vectors.dtype) for average in x]  # half precision is too coarse for a sum
        return ops.concatenate([*x, super().join(nearest)] if near else x, axis=-1)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], number_of_blocks(input_shape[1] + 1, self.averages_after) * self.embedding_dim)

    def get_config(self) -> dict:
        return super().get_config() | {"averages_after": self.averages_after}


def build_context(
    context: str | keras.layers.Layer,
    vocabulary_size: int,
    embedding_dim: int,
    weight_decay: float = 0.0,
    word_dropout: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> ContextEmbedding:
    """Return the context layer that a name stands for, or the given layer.

    Args:
        context: `"concatenated"`, the paper's `ContextEmbedding` with the options below, or a context layer.
        vocabulary_size, embedding_dim, weight_decay, word_dropout, dropout: see `ContextEmbedding`. A given layer has
            its own.
        dtype: dtype policy of a named layer.

    Raises:
        InputError: unknown name, not a context layer, or a layer of a different vocabulary.
    """
    if context == "concatenated":
        options = dict(weight_decay=weight_decay, word_dropout=word_dropout, dropout=dropout, dtype=dtype)
        return ContextEmbedding(vocabulary_size, embedding_dim, name="embed", **options)
    wanted = "'concatenated' or a context layer such as AveragedContext(...)"
    check_argument("context", isinstance(context, ContextEmbedding), wanted, context, "pass the name or a layer.")
    check_argument(
        "context",
        context.vocabulary_size == vocabulary_size,
        f"a layer of {vocabulary_size} words",
        f"{context.name} of {context.vocabulary_size} words",
        "give both the same `vocabulary_size`.",
    )
    given = dict(word_dropout=word_dropout, embedding_dropout=dropout)
    for option, value in given.items():
        check_argument(option, not value, "0 if `context` is a layer", value, "give it to the layer.")
    return context
