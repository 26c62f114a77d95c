"""Context layer: look up the feature vectors of the context words and concatenate them."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.data.ids import PAD_ID
from keras_nplm.layers.arrays import convert_to_float32, list_position_spans
from keras_nplm.layers.lookup import ensure_width, rows, zero_masked_rows
from keras_nplm.layers.ops import Dropout, NewRows, Tensor, append_rows, l2_regularizer
from keras_nplm.layers.segments import Context, SegmentEmbedding


@keras.saving.register_keras_serializable("keras_nplm")
class ContextEmbedding(SegmentEmbedding):
    """Word embedding of the context: the feature vectors of its words, concatenated.

        x = [C(w_{t-n+1}), …, C(w_{t-1})]

    One lookup in the one matrix C, shared by all positions. The paper writes x with the nearest
    word first. Here x keeps the order of the text, which permutes the columns of H and W and
    changes nothing else. A position that holds `<pad>` (id 0) adds a zero vector. A position that
    holds an id outside the vocabulary adds NaN.

    Args:
        vocabulary_size: int, |V|.
        embedding_dim: int, m.
        weight_decay: float, the paper's weight decay on C.
        word_dropout: float in [0, 1), the share of context words that training leaves out.
        dropout: float in [0, 1), the share of the components of x that training leaves out.

    Call arguments:
        context_ids: int [B, n-1], oldest word first.
        training: bool, whether dropout is active.

    Returns:
        x, float [B, (n-1) m].

    A context layer of your own overrides `join` and `compute_output_shape`, and `position_spans`
    for scores in NumPy. Cast its weights: `read` is called past Keras. An optimiser decays its
    matrices, unless `biases` names them. A matrix has the layer's own `weight_decay` by the
    `regularizer` of C below.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), section 2.
    """

    words_option = "vocabulary_size"
    options: tuple[str, ...] = (
        "vocabulary_size",
        "embedding_dim",
        "weight_decay",
        "word_dropout",
        "dropout",
    )

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
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

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

    def call(self, context_ids: Tensor, training: bool = False) -> Tensor:
        return self.read(context_ids, training).x

    def read(
        self, context_ids: Tensor, training: bool = False, sum_gradient: bool = True
    ) -> Context:
        """Read single contexts: x, the vectors of their words and their ids.

        `sum_gradient` says whether a repeated word has one slice of the gradient; see
        `keras_nplm.layers.lookup.rows`.
        """
        context_ids = self._fix_width(context_ids)
        vectors = self.vectors(context_ids, training, sum_gradient)  # [B, n-1, m]
        vectors = self.drop_words(vectors, training=training)
        x = self.drop(self.join(vectors), training=training)  # [B, (n-1) m]
        return Context(x, vectors, context_ids, starts=None)

    def _fix_width(self, context_ids: Tensor) -> Tensor:
        """Return ids, int32 [B, n-1]."""
        return ensure_width(ops.cast(context_ids, "int32"), self.context_size)

    def vectors(
        self, context_ids: Tensor, training: bool = False, sum_gradient: bool = True
    ) -> Tensor:
        """Return C(w) of each word, float [B, words, m]."""
        vectors = ops.cast(rows(self.C, context_ids, sum_gradient=sum_gradient), self.compute_dtype)
        present = ops.cast(ops.not_equal(context_ids, PAD_ID), vectors.dtype)
        known = ops.logical_and(context_ids >= 0, context_ids < self.vocabulary_size)
        mask = ops.expand_dims(ops.where(known, present, float("nan")), -1)
        return zero_masked_rows(vectors, mask) if training else vectors * mask

    def join(self, vectors: Tensor) -> Tensor:
        """Return x, float [B, (n-1) m], from the vectors [B, n-1, m]."""
        return ops.reshape(vectors, (-1, vectors.shape[1] * self.embedding_dim))

    def position_spans(self, context_size: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the block of m components of x that each context position adds to, int [n-1], and
        its scale, float [n-1], which may be a learned weight. None: x is no such sum.

        Scores in NumPy are made from it, such as self-normalised ones: see `SelfNormalised`. A
        layer with None is scored by the network itself.
        """
        return list_position_spans(context_size)

    def list_arrays(self) -> dict[str, Any] | None:
        spans = self.position_spans(self.context_size)
        if spans is None:
            return None
        block, scale = spans
        C = convert_to_float32(self.C)
        C[PAD_ID] = 0
        return {"block": block, "scale": scale, "C": C}

    def num_single_words(self, context_size: int) -> int:
        """Return how many of the nearest words have a block of x of their own."""
        return context_size

    def grow_from(self, smaller: "ContextEmbedding", rows: NewRows) -> None:
        for weight, old in zip(self.weights, smaller.weights, strict=True):
            weight.assign(append_rows(old, rows.C) if weight is self.C else old)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], input_shape[1] * self.embedding_dim)
