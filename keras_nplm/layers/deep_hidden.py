"""Deep hidden layers: residual blocks, layer normalisation and a choice of activation."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import check_choice, check_integer
from keras_nplm.layers.arrays import BlockArrays, DeepArrays, NormArrays, convert_to_float32
from keras_nplm.layers.hidden import Hidden
from keras_nplm.layers.ops import ConfiguredLayer, Dropout, Tensor, l2_regularizer

ACTIVATIONS = ("tanh", "relu", "gelu", "silu")
_NORM_EPSILON = 1e-3  # added to the variance


@keras.saving.register_keras_serializable("keras_nplm")
class DeepHidden(Hidden):
    """Deep hidden layer with residual blocks, layer normalisation and a choice of activation.

        a_0 = g(d + H x),    a_k = a_{k-1} + g(d_k + H_k N(a_{k-1})),    a = N(a_K)

    The scale γ of the last N starts at 0.25, about the root mean square of trained tanh units. So
    logits start small, and the learning rates of the plain network still work.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H and H_k. Biases and the weights of N have
            none.
        activation: str, g: one of `ACTIVATIONS`.
        residual_blocks: int, K, 0 or more; see `ResidualBlock`.
        layer_norm: bool, whether N is layer normalisation. If not, N(a) = a and the last N is left
            out.
        dropout: float in [0, 1), the share of hidden units, and of what each block adds, that
            training leaves out.

    Call arguments, returns: as in `Hidden`.

    Reference: Sun & Iyyer (2021), Revisiting simple neural probabilistic language models, section
    3.
    """

    options = ("activation", "residual_blocks", "layer_norm")

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
        check_choice("activation", activation, ACTIVATIONS)
        check_integer("residual_blocks", residual_blocks, 0, most=1023)
        self.activation = activation
        self.residual_blocks = residual_blocks
        self.layer_norm = layer_norm
        super().__init__(hidden_units, weight_decay, dropout, **kwargs)

    def _build_dropout(self) -> Dropout:
        options = self.activation, self.layer_norm, self.dropout, self.weight_decay
        names = [f"block_{k}" for k in range(1, self.residual_blocks + 1)]
        self.blocks = [
            ResidualBlock(*options, name=name, dtype=self.dtype_policy) for name in names
        ]
        self.norm = None
        if self.layer_norm:
            scale = keras.initializers.Constant(0.25)
            self.norm = keras.layers.LayerNormalization(
                epsilon=_NORM_EPSILON, gamma_initializer=scale, name="norm", dtype=self.dtype_policy
            )
        return super()._build_dropout()

    def build(self, input_shape: tuple) -> None:
        super().build(input_shape)
        for layer in self.blocks + ([] if self.norm is None else [self.norm]):
            layer.build((None, self.hidden_units))

    def transform(self, z: Tensor, training: bool) -> Tensor:
        a = getattr(ops, self.activation)(z)
        for block in self.blocks:
            a = block(a, training=training)
        return a if self.norm is None else self.norm(a)

    def to_array_function(self) -> Callable[[np.ndarray], np.ndarray]:
        blocks = [block.to_arrays() for block in self.blocks]
        return DeepArrays(self.activation, blocks, _convert_norm(self.norm))


@keras.saving.register_keras_serializable("keras_nplm")
class ResidualBlock(ConfiguredLayer):
    """Residual block: a further hidden layer whose output is added to its input.

        a' = a + g(d + H N(a)),    N(a) = layer normalisation, or a itself

    Args:
        activation: str, g: one of `ACTIVATIONS`.
        layer_norm: bool, whether N is layer normalisation.
        dropout: float in [0, 1), the share of g(…) that training leaves out.
        weight_decay: float, the paper's weight decay on H.

    Call arguments, returns: as in `Hidden`, with the input a, float [B, h].

    Reference: He, Zhang, Ren & Sun (2016), Identity mappings in deep residual networks; Ba, Kiros &
    Hinton (2016), Layer normalization.
    """

    options = ("activation", "layer_norm", "dropout", "weight_decay")

    def __init__(
        self,
        activation: str = "tanh",
        layer_norm: bool = False,
        dropout: float = 0.0,
        weight_decay: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.activation = activation
        self.layer_norm = layer_norm
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.norm = (
            keras.layers.LayerNormalization(
                epsilon=_NORM_EPSILON, name="norm", dtype=self.dtype_policy
            )
            if layer_norm
            else None
        )
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)

    def build(self, input_shape: tuple) -> None:
        units = input_shape[-1]
        self.H = self.add_weight(
            name="H",
            shape=(units, units),
            initializer="glorot_uniform",
            regularizer=l2_regularizer(self.weight_decay),
        )
        self.d = self.add_weight(name="d", shape=(units,), initializer="zeros")
        if self.norm is not None:
            self.norm.build(input_shape)
        self.drop.build(input_shape)

    def call(self, a: Tensor, training: bool = False) -> Tensor:
        normalised = a if self.norm is None else self.norm(a)
        added = getattr(ops, self.activation)(ops.matmul(normalised, self.H) + self.d)
        return a + self.drop(added, training=training)

    def to_arrays(self) -> BlockArrays:
        """Return the present weights, in float32."""
        return BlockArrays(_convert_norm(self.norm), *map(convert_to_float32, (self.H, self.d)))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return input_shape


def _convert_norm(norm: keras.layers.LayerNormalization | None) -> NormArrays | None:
    """Return the present weights of a layer normalisation, in float32."""
    if norm is None:
        return None
    gamma, beta = map(convert_to_float32, (norm.gamma, norm.beta))
    return NormArrays(gamma, beta, norm.epsilon)
