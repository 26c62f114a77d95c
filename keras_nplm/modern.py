"""What modern variants of the network add to the paper's layers: averages of the far context, residual blocks."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_nplm.errors import InputError
from keras_nplm.layers import ContextEmbedding, TanhHidden

ACTIVATIONS = ("tanh", "relu", "gelu", "silu")


def check_averages(averages_after: Sequence[int]) -> None:
    """Refuse spans that do not lie end to end.

    Raises:
        InputError: the numbers do not rise, or the first is below 0.
    """
    if list(averages_after) != sorted({*averages_after}) or min(averages_after, default=0) < 0:
        raise InputError(f"`averages_after` must rise from 0 or more. Received: {list(averages_after)}.")


def number_of_blocks(order: int, averages_after: Sequence[int]) -> int:
    """How many vectors of m components make up x: n-1 words, or the near ones and an average for each span.

    Example:

    >>> number_of_blocks(61, ()), number_of_blocks(61, (4, 20))
    (60, 6)
    """
    return averages_after[0] + len(averages_after) if averages_after else order - 1


def near_order(order: int, averages_after: Sequence[int]) -> int:
    """The order of the n-gram model that sees the words which stand each in its place in x: n, or fewer with averages.

    Example:

    >>> near_order(61, ()), near_order(61, (4, 20))
    (61, 5)
    """
    return max(2, averages_after[0] + 1) if averages_after else order


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


@keras.saving.register_keras_serializable("keras_nplm")
class ActivatedHidden(TanhHidden):
    """The hidden layer with another activation than the paper's.

        a = g(d + H x)

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H; d has none.
        activation: str, g: one of `ACTIVATIONS`.

    Call arguments:
        x: float [B, w].

    Returns:
        float [B, h].

    Example:

    >>> ActivatedHidden(hidden_units=3, activation="relu")(np.zeros((2, 6), "float32")).numpy().max().item()
    0.0
    """

    def __init__(self, hidden_units: int, weight_decay: float = 0.0, activation: str = "tanh", **kwargs):
        super().__init__(hidden_units, weight_decay, **kwargs)
        if activation not in ACTIVATIONS:
            raise InputError(f"`activation` must be one of {', '.join(ACTIVATIONS)}. Received: {activation!r}.")
        self.activation = activation

    def activate(self, z):
        return getattr(ops, self.activation)(z)

    def get_config(self):
        return super().get_config() | {"activation": self.activation}


@keras.saving.register_keras_serializable("keras_nplm")
class ResidualBlock(keras.layers.Layer):
    """One more hidden layer, whose input is added to what it computes.

        a' = a + g(d + H N(a)),    N(a) = layer normalisation, or a itself

    Args:
        activation: str, g: one of `ACTIVATIONS`.
        layer_norm: bool, whether N normalises.
        dropout: float in [0, 1), the share of what is added that is left out in training.
        weight_decay: float, the paper's weight decay on H.

    Call arguments:
        a: float [B, h].

    Returns:
        float [B, h].

    Example:

    >>> ResidualBlock(layer_norm=True)(np.ones((2, 6), "float32")).shape
    TensorShape([2, 6])

    Reference: He, Zhang, Ren & Sun (2016), Identity mappings in deep residual networks; Ba, Kiros & Hinton (2016),
    Layer normalization.
    """

    def __init__(
        self,
        activation: str = "tanh",
        layer_norm: bool = False,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.activation = activation
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.norm = keras.layers.LayerNormalization(name="norm", dtype=self.dtype_policy) if layer_norm else None
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, input_shape):
        options = dict(name="hidden", dtype=self.dtype_policy)
        self.hidden = ActivatedHidden(input_shape[-1], self.weight_decay, self.activation, **options)
        self.hidden.build(input_shape)
        if self.norm is not None:
            self.norm.build(input_shape)
        self.drop.build(input_shape)

    def call(self, a, training=False):
        added = self.hidden(a if self.norm is None else self.norm(a))
        return a + self.drop(added, training=training)

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights that weight decay spares."""
        return self.hidden.biases + ([] if self.norm is None else [self.norm.gamma, self.norm.beta])

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {
            "activation": self.activation,
            "layer_norm": self.layer_norm,
            "dropout": self.dropout,
            "weight_decay": self.weight_decay,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class DeepHidden(ActivatedHidden):
    """The hidden layer, residual blocks on top of it, and a last layer normalisation.

        a_0 = g(d + H x),    a_k = a_{k-1} + g(d_k + H_k N(a_{k-1})),    a = N(a_K)

    The scale γ of the last N begins at 0.25, about the root mean square of trained tanh units, so that logits begin
    small and the rates of the plain network will do.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H and H_k; biases, and what N learns, have none.
        activation: str, g: one of `ACTIVATIONS`.
        residual_blocks: int, K, 0 or more; see `ResidualBlock`.
        layer_norm: bool, whether N normalises.
        dropout: float in [0, 1), of what the blocks add.

    Call arguments:
        x: float [B, w].

    Returns:
        float [B, h].

    Example:

    >>> a = DeepHidden(hidden_units=8, residual_blocks=2, layer_norm=True)(np.random.normal(size=(2, 6)))
    >>> bool(np.allclose(np.mean(a, axis=1), 0, atol=1e-5))
    True

    Reference: Sun & Iyyer (2021), section 3.
    """

    def __init__(
        self,
        hidden_units: int,
        weight_decay: float = 0.0,
        activation: str = "tanh",
        residual_blocks: int = 0,
        layer_norm: bool = False,
        dropout: float = 0.0,
        **kwargs,
    ):
        super().__init__(hidden_units, weight_decay, activation, **kwargs)
        self.residual_blocks = residual_blocks
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.blocks = [
            ResidualBlock(activation, layer_norm, dropout, weight_decay, name=f"block_{k}", dtype=self.dtype_policy)
            for k in range(1, residual_blocks + 1)
        ]
        self.norm = None
        if layer_norm:
            options = dict(gamma_initializer=keras.initializers.Constant(0.25), name="norm", dtype=self.dtype_policy)
            self.norm = keras.layers.LayerNormalization(**options)

    def build(self, input_shape):
        super().build(input_shape)
        for layer in self.blocks + ([] if self.norm is None else [self.norm]):
            layer.build((None, self.hidden_units))

    def call(self, x, training=False):
        return self.deepen(super().call(x), training=training)

    def deepen(self, a, training=False):
        """a, float [B, h], from a_0."""
        for block in self.blocks:
            a = block(a, training=training)
        return a if self.norm is None else self.norm(a)

    @property
    def biases(self):
        norm = [] if self.norm is None else [self.norm.gamma, self.norm.beta]
        return super().biases + [bias for block in self.blocks for bias in block.biases] + norm

    def random_states(self) -> dict[str, keras.Variable]:
        """Where the random numbers of dropout have got to."""
        return {f"{block.name}_state": block.drop.seed_generator.state for block in self.blocks if block.dropout > 0}

    def get_config(self):
        return super().get_config() | {
            "residual_blocks": self.residual_blocks,
            "layer_norm": self.layer_norm,
            "dropout": self.dropout,
        }


def context_layer(*args, averages_after: Sequence[int] = (), **kwargs) -> ContextEmbedding:
    """The paper's layer of the context, or that which averages its far words."""
    return (
        AveragedContext(*args, averages_after=averages_after, **kwargs)
        if averages_after
        else ContextEmbedding(*args, **kwargs)
    )


def hidden_layer(
    hidden_units: int,
    weight_decay: float,
    *,
    activation: str,
    residual_blocks: int,
    layer_norm: bool,
    dropout: float,
    **kwargs,
) -> TanhHidden:
    """The paper's hidden layer, or that which has what is asked for beyond it."""
    if activation == "tanh" and not residual_blocks and not layer_norm:
        return TanhHidden(hidden_units, weight_decay, **kwargs)
    return DeepHidden(hidden_units, weight_decay, activation, residual_blocks, layer_norm, dropout, **kwargs)
