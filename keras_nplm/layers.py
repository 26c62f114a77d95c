"""The layers below the output: C, then tanh(d + H x), then what the direct connections join to it."""

import keras
import numpy as np
from keras import ops

from keras_nplm.operations import rows
from keras_nplm.vocabulary import PAD_ID


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
class TanhHidden(keras.layers.Layer):
    """The hidden layer.

        a = tanh(d + H x)

    H is kept as [(n-1) m, h], the transpose of the paper's.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H; d has none.

    Call arguments:
        x: float [B, (n-1) m].

    Returns:
        float [B, h], in (-1, 1).

    Example:

    >>> import numpy as np
    >>> TanhHidden(hidden_units=3)(np.zeros((2, 6), "float32")).numpy().tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    def __init__(self, hidden_units: int, weight_decay: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden_units = hidden_units
        self.weight_decay = weight_decay

    def build(self, input_shape):
        self.H = self.add_weight(
            name="H",
            shape=(input_shape[-1], self.hidden_units),
            initializer="glorot_uniform",
            regularizer=penalty(self.weight_decay),
        )
        self.d = self.add_weight(name="d", shape=(self.hidden_units,), initializer="zeros")

    def call(self, x):
        return self.activate(ops.matmul(x, self.H) + self.d)

    def activate(self, z):
        """tanh(z), float [B, h]."""
        return ops.tanh(z)

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights that weight decay spares."""
        return [self.d]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.hidden_units)

    def get_config(self):
        return super().get_config() | {"hidden_units": self.hidden_units, "weight_decay": self.weight_decay}


@keras.saving.register_keras_serializable("keras_nplm")
class DirectConnection(keras.layers.Layer):
    """The optional connections from the word features straight to the output.

        U a + W x = [U W] [a; x]

    This layer joins a and x, so that the output layer holds [U W] as one kernel and needs one product for both.

    Call arguments:
        a: float [B, h], the hidden layer, or None where there is none (h = 0).
        x: float [B, (n-1) m].

    Returns:
        float [B, h + (n-1) m].

    Example:

    >>> import numpy as np
    >>> DirectConnection()(np.zeros((2, 3), "float32"), np.ones((2, 4), "float32")).shape
    TensorShape([2, 7])

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    def call(self, a, x):
        return x if a is None else ops.concatenate([a, x], axis=-1)


def penalty(weight_decay: float) -> keras.regularizers.Regularizer | None:
    """The penalty λ/2 |θ|², whose gradient is λ θ: the paper's weight decay of strength λ. None where λ is 0."""
    return keras.regularizers.L2(weight_decay / 2) if weight_decay else None
