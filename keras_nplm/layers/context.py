"""TODO doc."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_nplm.data.vocabulary import PAD_ID
from keras_nplm.io.errors import InputError
from keras_nplm.io.shapes import check_averages, number_of_blocks
from keras_nplm.layers.ops import penalty, rows


@keras.saving.register_keras_serializable("keras_nplm")
class ContextEmbedding(keras.layers.Layer):
    """The feature vectors of the context's words, concatenated.

        x = [C(w_{t-n+1}), …, C(w_{t-1})]

    One lookup in the one matrix C, shared by all positions. The paper writes x with the nearest word first; ours keeps
    the order of the text, which permutes the columns of H and W and changes nothing else. A position that holds
    `<pad>` (id 0) adds a zero vector, so that C's row 0 has no part in the likelihood; one that holds an id outside
    the vocabulary adds NaN.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        weight_decay: float, the paper's weight decay on C.

    Call arguments:
        context_ids: int [B, n-1], oldest first.

    Returns:
        float [B, (n-1) m].

    Example:

    >>> import numpy as np
    >>> embed = ContextEmbedding(vocabulary_size=5, embedding_dim=2)
    >>> embed(np.array([[0, 3, 4]])).shape
    TensorShape([1, 6])

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 2.
    """

    def __init__(self, vocabulary_size: int, embedding_dim: int, weight_decay: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size = vocabulary_size
        self.embedding_dim = embedding_dim
        self.weight_decay = weight_decay

    def build(self, input_shape):
        self.C = self.add_weight(
            name="C",
            shape=(self.vocabulary_size, self.embedding_dim),
            initializer=keras.initializers.RandomNormal(stddev=0.05),
            regularizer=penalty(self.weight_decay),
            autocast=False,
        )

    def call(self, context_ids):
        return self.join(self.vectors(context_ids))

    def vectors(self, context_ids):
        """C(w) of each word of the context, float [B, n-1, m]."""
        vectors = ops.cast(rows(self.C, context_ids), self.compute_dtype)
        present = ops.cast(ops.not_equal(context_ids, PAD_ID), vectors.dtype)
        known = ops.logical_and(context_ids >= 0, context_ids < self.vocabulary_size)
        return vectors * ops.expand_dims(ops.where(known, present, float("nan")), -1)

    def join(self, vectors):
        """x, float [B, (n-1) m], from these."""
        return ops.reshape(vectors, (-1, vectors.shape[1] * self.embedding_dim))

    def word_blocks(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Which m components of x each of `number` words of a context adds to, and how often its vector is added:
        here each has its own, once. int [number], float32 [number]."""
        return np.arange(number), np.ones(number, np.float32)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[1] * self.embedding_dim)

    def get_config(self):
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "embedding_dim": self.embedding_dim,
            "weight_decay": self.weight_decay,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class AveragedContext(ContextEmbedding):
    """The near words' feature vectors concatenated, as the paper has them, and averages of those further back.

        x = [ā_K, …, ā_1, C(w_{t-k}), …, C(w_{t-1})],    ā_j = L_j^{-1/2} sum_{w in span j} C(w)

    Near words matter each in its place, far ones for what the text is about: a window of dozens of words costs K blocks
    of m numbers, not n-1. The spans lie end to end: span 1 begins beyond the k near words and has L_1 words, the last
    one goes to the end of the context. They are divided by the root of their length, so that all blocks of x begin with
    about the same variance. A `<pad>` adds a zero vector.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        averages_after: ints, rising: (k, …), how many words back each span begins, the words up to k being near. As in
            (4, 20): 4 near words, an average of words 5 to 20, another of the words from 21 on.
        weight_decay: float, the paper's weight decay on C.

    Call arguments:
        context_ids: int [B, n-1], oldest first.

    Returns:
        float [B, (K + k) m].

    Raises:
        InputError: `averages_after` does not rise, or (when built) reaches beyond the context.

    Example:

    >>> embed = AveragedContext(vocabulary_size=9, embedding_dim=2, averages_after=(1,))
    >>> x = embed(np.array([[5, 6, 7, 8, 4]]))
    >>> C = embed.C.numpy()
    >>> bool(np.allclose(x, [[*C[5:9].sum(axis=0) / 2, *C[4]]], atol=1e-6))
    True

    Reference: Sun & Iyyer (2021), Revisiting simple neural probabilistic language models, section 3, "global
    aggregate".
    """

    def __init__(self, *args, averages_after: Sequence[int], **kwargs):
        super().__init__(*args, **kwargs)
        self.averages_after = tuple(averages_after)
        check_averages(self.averages_after)

    def build(self, input_shape):
        if self.averages_after[-1] >= input_shape[-1]:
            raise InputError(
                f"`averages_after` must be below {input_shape[-1]}, the words of a context: nothing lies beyond. "
                f"Received: {list(self.averages_after)}."
            )
        super().build(input_shape)

    def word_blocks(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        near, *others = self.averages_after
        edges = [number, *reversed(others), near]  # words back, of the ends of the spans
        lengths = -np.diff(edges)
        spans = len(lengths)
        block = np.concatenate([np.repeat(np.arange(spans), lengths), spans + np.arange(near)])
        scale = np.concatenate([np.repeat(lengths**-0.5, lengths), np.ones(near)])
        return block, scale.astype(np.float32)

    def join(self, vectors):
        near, *others = self.averages_after
        number = vectors.shape[1]
        edges = [number - edge for edge in (*reversed(others), near)]
        *spans, nearest = ops.split(vectors, edges, axis=1)
        x = [ops.sum(span, axis=1) * span.shape[1] ** -0.5 for span in spans]
        return ops.concatenate([*x, super().join(nearest)] if near else x, axis=-1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], number_of_blocks(input_shape[1] + 1, self.averages_after) * self.embedding_dim)

    def get_config(self):
        return super().get_config() | {"averages_after": self.averages_after}


def context_layer(*args, averages_after: Sequence[int] = (), **kwargs) -> ContextEmbedding:
    """The paper's layer of the context, or that which averages its far words."""
    return (
        AveragedContext(*args, averages_after=averages_after, **kwargs)
        if averages_after
        else ContextEmbedding(*args, **kwargs)
    )
