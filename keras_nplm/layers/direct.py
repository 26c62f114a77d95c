"""Direct connections from the word features to the output, past the hidden layer."""

from typing import Any

import keras
from keras import ops

from keras_nplm.layers.ops import ConfiguredLayer, Tensor, l2_regularizer


@keras.saving.register_keras_serializable("keras_nplm")
class DirectConnection(ConfiguredLayer):
    """Direct connections from the word features to the output, past the hidden layer.

        y = b + U a + W x

    The layer computes W x. In a functional model `Dense(V)(a) + DirectConnection(V)(x)` is y. `NPLM` has no such layer:
    there W is the last columns of the output layer's kernel [U W], so that one matrix product gives U a + W x.

    Args:
        units: int, |V|, the rows of W.
        weight_decay: float, the paper's weight decay on W.

    Call arguments:
        x: float [B, w].

    Returns:
        W x, float [B, |V|].

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    options = ("units", "weight_decay")

    def __init__(self, units: int, weight_decay: float = 0.0, **kwargs: Any):
        super().__init__(**kwargs)
        self.units = units
        self.weight_decay = weight_decay

    def build(self, input_shape: tuple) -> None:
        self.W = self.add_weight(
            name="W",
            shape=(self.units, input_shape[-1]),
            initializer="glorot_uniform",
            regularizer=l2_regularizer(self.weight_decay),
        )

    def call(self, x: Tensor) -> Tensor:
        return ops.matmul(x, ops.transpose(ops.cast(self.W, x.dtype)))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.units)
