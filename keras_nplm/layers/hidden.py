"""The layers below the output: C, then tanh(d + H x), then what the direct connections join to it."""

import keras
from keras import ops

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import penalty


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


ACTIVATIONS = ("tanh", "relu", "gelu", "silu")


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
