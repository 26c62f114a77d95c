"""Hidden layer, tanh(d + H x), and the direct connections past it, W x."""

import abc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.layers.arrays import TanhArrays, convert_to_float32
from keras_nplm.layers.ops import (
    ConfiguredLayer,
    Dropout,
    NewRows,
    Tensor,
    append_rows,
    l2_regularizer,
)


class Hidden(ConfiguredLayer, abc.ABC):
    """Base class of hidden layers: the features a of a context, from d + H x.

        a = transform(d + H x)

    A subclass implements `transform`, and the same in NumPy: `to_array_function`. H is kept as
    [(n-1) m, h], the transpose of the paper's.

    Args:
        hidden_units: int, h.
        weight_decay: float, the paper's weight decay on H. The bias d has none.
        dropout: float in [0, 1), the share of hidden units that training leaves out.

    Call arguments:
        x: float [B, (n-1) m].
        training: bool, whether dropout is active.

    Returns:
        float [B, h].
    """

    options = ("hidden_units", "weight_decay", "dropout")

    def __init__(
        self, hidden_units: int, weight_decay: float = 0.0, dropout: float = 0.0, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self.hidden_units = hidden_units
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.drop = self._build_dropout()

    def _build_dropout(self) -> Dropout:
        return Dropout(self.dropout, name="drop", dtype=self.dtype_policy)

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
        a = self.transform(ops.matmul(x, self.H) + self.d, training)
        return self.drop(a, training=training)

    @abc.abstractmethod
    def transform(self, z: Tensor, training: bool) -> Tensor:
        """Return the features of z = d + H x: float [B, h], both."""

    @abc.abstractmethod
    def to_array_function(self) -> Callable[[np.ndarray], np.ndarray]:
        """Return `transform` as a function of float32 arrays [B, h], with the present weights.

        It may write to its argument, and can be pickled.
        """

    def list_arrays(self) -> dict[str, Any] | None:
        H, d = map(convert_to_float32, (self.H, self.d))
        return {"H": H, "d": d, "transform": self.to_array_function()}

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.hidden_units)


@keras.saving.register_keras_serializable("keras_nplm")
class TanhHidden(Hidden):
    """The tanh hidden layer of the paper.

        a = tanh(d + H x)

    Args, call arguments: see `Hidden`.

    Returns:
        float [B, h], in (-1, 1) without dropout.

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    def transform(self, z: Tensor, training: bool) -> Tensor:
        return ops.tanh(z)

    def to_array_function(self) -> Callable[[np.ndarray], np.ndarray]:
        return TanhArrays()


@keras.saving.register_keras_serializable("keras_nplm")
class NoHidden(ConfiguredLayer):
    """No hidden layer: a has no units, and only direct connections are left, y = b + W x."""

    hidden_units = 0

    def build(self, input_shape: tuple) -> None:
        """There are no weights."""

    def call(self, x: Tensor) -> Tensor:
        return x[:, :0]

    def list_arrays(self) -> dict[str, Any] | None:
        return {}

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], 0)


@keras.saving.register_keras_serializable("keras_nplm")
class DirectConnection(ConfiguredLayer):
    """Direct connections from the word features to the output, past the hidden layer.

        y = b + U a + W x

    The layer owns W. Calling it gives W x. A network joins W to the scores of a `LinearHead`, so
    that one matrix product gives U a + W x, and a few words cost a few rows of W.

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
    words_option = "units"

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
            dtype=self.accumulator_dtype,
            autocast=False,
        )

    def call(self, x: Tensor) -> Tensor:
        x = ops.cast(x, self.accumulator_dtype)
        return ops.matmul(x, ops.transpose(self.W))

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.units)

    def list_arrays(self) -> dict[str, Any] | None:
        return {"W": convert_to_float32(self.W)}

    def grow_from(self, smaller: "DirectConnection", rows: NewRows) -> None:
        width = self.W.shape[1]
        self.W.assign(append_rows(smaller.W, rows.kernel[:, -width:]))
