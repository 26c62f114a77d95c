"""Hidden layers: tanh(d + H x), and residual blocks on top of it."""

from typing import Any

import keras
from keras import ops

from keras_nplm.io.errors import check_argument
from keras_nplm.io.options import check_option
from keras_nplm.layers.ops import Tensor, l2_regularizer

ACTIVATIONS = ("tanh", "relu", "gelu", "silu")


@keras.saving.register_keras_serializable("keras_nplm")
class TanhHidden(keras.layers.Layer):
    """The tanh hidden layer of the paper.

        a = tanh(d + H x)

    H is kept as [(n-1) m, h], the transpose of the paper's.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H. The bias d has none.
        dropout: float in [0, 1), the share of hidden units that training leaves out.

    Call arguments:
        x: float [B, (n-1) m].
        training: bool, whether dropout is active.

    Returns:
        float [B, h], in (-1, 1) without dropout.

    Example:

    >>> import numpy as np
    >>> TanhHidden(hidden_units=3)(np.zeros((2, 6), "float32")).numpy().tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    activation = "tanh"

    def __init__(self, hidden_units: int, weight_decay: float = 0.0, dropout: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.hidden_units = hidden_units
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.drop = self._build_dropout()

    def _build_dropout(self) -> keras.layers.Dropout:
        return keras.layers.Dropout(self.dropout, name="drop", dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        self.H = self.add_weight(
            name="H",
            shape=(input_shape[-1], self.hidden_units),
            initializer="glorot_uniform",
            regularizer=l2_regularizer(self.weight_decay),
        )
        self.d = self.add_weight(name="d", shape=(self.hidden_units,), initializer="zeros")
        self.drop.build((None, self.hidden_units))

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        a = self.transform(self.activate(ops.matmul(x, self.H) + self.d), training=training)
        return self.drop(a, training=training)

    def activate(self, z: Tensor) -> Tensor:
        """Return tanh(z), float [B, h]."""
        return ops.tanh(z)

    def transform(self, a: Tensor, training: bool = False) -> Tensor:
        """Return the features that follow the first activation, float [B, h]: here `a` itself."""
        return a

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay."""
        return [self.d]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.hidden_units)

    def get_config(self) -> dict:
        return super().get_config() | {
            "hidden_units": self.hidden_units,
            "weight_decay": self.weight_decay,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class DeepHidden(TanhHidden):
    """Deep hidden layer with residual blocks, layer normalisation and a choice of activation.

        a_0 = g(d + H x),    a_k = a_{k-1} + g(d_k + H_k N(a_{k-1})),    a = N(a_K)

    The scale γ of the last N starts at 0.25, about the root mean square of trained tanh units. So logits start small,
    and the learning rates of the plain network still work.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H and H_k. Biases and the weights of N have none.
        activation: str, g: one of `ACTIVATIONS`.
        residual_blocks: int, K, 0 or more; see `ResidualBlock`.
        layer_norm: bool, whether N is layer normalisation. If not, N(a) = a and the last N is left out.
        dropout: float in [0, 1), the share of hidden units, and of what each block adds, that training leaves out.

    Call arguments:
        x: float [B, w].
        training: bool, whether dropout is active.

    Returns:
        float [B, h].

    Raises:
        InputError: unknown activation, or a negative number of blocks.

    Example:

    >>> import numpy as np
    >>> a = DeepHidden(hidden_units=8, residual_blocks=2, layer_norm=True)(np.random.normal(size=(2, 6)))
    >>> bool(np.allclose(np.mean(a, axis=1), 0, atol=1e-5))
    True

    Reference: Sun & Iyyer (2021), Revisiting simple neural probabilistic language models, section 3.
    """

    def __init__(
        self,
        hidden_units: int,
        weight_decay: float = 0.0,
        activation: str = "tanh",
        residual_blocks: int = 0,
        layer_norm: bool = False,
        dropout: float = 0.0,
        **kwargs: Any,
    ):
        check_option("activation", activation)
        check_argument("residual_blocks", residual_blocks >= 0, "0 or more", residual_blocks, "give 0 for no block.")
        self.activation = activation
        self.residual_blocks = residual_blocks
        self.layer_norm = layer_norm
        super().__init__(hidden_units, weight_decay, dropout, **kwargs)

    def _build_dropout(self) -> keras.layers.Dropout:
        self.blocks = [
            ResidualBlock(
                self.activation,
                self.layer_norm,
                self.dropout,
                self.weight_decay,
                name=f"block_{k}",
                dtype=self.dtype_policy,
            )
            for k in range(1, self.residual_blocks + 1)
        ]
        self.norm = None
        if self.layer_norm:
            options = dict(gamma_initializer=keras.initializers.Constant(0.25), name="norm", dtype=self.dtype_policy)
            self.norm = keras.layers.LayerNormalization(**options)
        return super()._build_dropout()

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        for layer in self.blocks + ([] if self.norm is None else [self.norm]):
            layer.build((None, self.hidden_units))

    def activate(self, z: Tensor) -> Tensor:
        return getattr(ops, self.activation)(z)

    def transform(self, a: Tensor, training: bool = False) -> Tensor:
        for block in self.blocks:
            a = block(a, training=training)
        return a if self.norm is None else self.norm(a)

    @property
    def biases(self) -> list[keras.Variable]:
        return super().biases + [bias for block in self.blocks for bias in block.biases] + _norm_weights(self.norm)

    def get_config(self) -> dict:
        return super().get_config() | {
            "activation": self.activation,
            "residual_blocks": self.residual_blocks,
            "layer_norm": self.layer_norm,
        }


@keras.saving.register_keras_serializable("keras_nplm")
class ResidualBlock(keras.layers.Layer):
    """Residual block: a further hidden layer whose output is added to its input.

        a' = a + g(d + H N(a)),    N(a) = layer normalisation, or a itself

    Args:
        activation: str, g: one of `ACTIVATIONS`.
        layer_norm: bool, whether N is layer normalisation.
        dropout: float in [0, 1), the share of g(…) that training leaves out.
        weight_decay: float, the paper's weight decay on H.

    Call arguments:
        a: float [B, h].
        training: bool, whether dropout is active.

    Returns:
        float [B, h].

    Example:

    >>> import numpy as np
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
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_option("activation", activation)
        self.activation = activation
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.norm = keras.layers.LayerNormalization(name="norm", dtype=self.dtype_policy) if layer_norm else None
        self.drop = keras.layers.Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        units = input_shape[-1]
        self.H = self.add_weight(
            name="H", shape=(units, units), initializer="glorot_uniform", regularizer=l2_regularizer(self.weight_decay)
        )
        self.d = self.add_weight(name="d", shape=(units,), initializer="zeros")
        if self.norm is not None:
            self.norm.build(input_shape)
        self.drop.build(input_shape)

    def call(self, a: Tensor, training: bool = False) -> Tensor:
        normalised = a if self.norm is None else self.norm(a)
        added = getattr(ops, self.activation)(ops.matmul(normalised, self.H) + self.d)
        return a + self.drop(added, training=training)

    @property
    def biases(self) -> list[keras.Variable]:
        """The weights without weight decay."""
        return [self.d, *_norm_weights(self.norm)]

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape

    def get_config(self) -> dict:
        return super().get_config() | {
            "activation": self.activation,
            "layer_norm": self.layer_norm,
            "dropout": self.dropout,
            "weight_decay": self.weight_decay,
        }


def build_hidden(
    hidden: str | keras.layers.Layer | None,
    hidden_units: int,
    weight_decay: float = 0.0,
    dropout: float = 0.0,
    dtype: str | keras.DTypePolicy | None = None,
) -> keras.layers.Layer | None:
    """Return the hidden layer that a name stands for, or the given layer.

    Args:
        hidden: `"tanh"`, the paper's `TanhHidden`; the name of a different activation; a Keras layer [B, w] -> [B, h];
            or None, no hidden layer.
        hidden_units, weight_decay, dropout: see `TanhHidden`. `hidden_units` 0 also stands for no hidden layer. A given
            layer has options of its own.
        dtype: dtype policy of a named layer.

    Raises:
        InputError: unknown name, or not a layer.
    """
    if hidden is None or (isinstance(hidden, str) and hidden_units == 0):
        return None
    if hidden == "tanh":
        return TanhHidden(hidden_units, weight_decay, dropout, name="hidden", dtype=dtype)
    if isinstance(hidden, str):
        wanted = f"one of {', '.join(ACTIVATIONS)}, a Keras layer, or None"
        check_argument("hidden", hidden in ACTIVATIONS, wanted, repr(hidden), "choose one of these.")
        return DeepHidden(hidden_units, weight_decay, hidden, dropout=dropout, name="hidden", dtype=dtype)
    is_layer = isinstance(hidden, keras.layers.Layer)
    check_argument(
        "hidden", is_layer, "a name, a Keras layer, or None", hidden, "pass a layer such as DeepHidden(100)."
    )
    check_argument("dropout", not dropout, "0 if `hidden` is a layer", dropout, "give it to the layer.")
    return hidden


def _norm_weights(norm: keras.layers.LayerNormalization | None) -> list[keras.Variable]:
    return [] if norm is None else [norm.gamma, norm.beta]
