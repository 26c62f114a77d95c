"""The base class of layers, the L2 penalty of weight decay, and operations with a gradient of their
own.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import InputError, check_least

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

Tensor: TypeAlias = Any  # of Keras's backend: with values, or a symbol


@dataclasses.dataclass(frozen=True)
class NewRows:
    """Weights of J new words: C [J, m], kernel [U W] [J, w] (C if tied), b [J], their shares of all
    tokens [J].
    """

    C: np.ndarray
    kernel: np.ndarray
    b: np.ndarray
    frequencies: np.ndarray


def append_rows(weight: keras.Variable, new_rows: np.ndarray) -> np.ndarray:
    """Return a weight with rows of new words after the old ones."""
    return np.concatenate([ops.convert_to_numpy(weight), new_rows])


def list_biases(layer: keras.layers.Layer) -> list[keras.Variable]:
    """Return the weights of a layer that have no weight decay: of a layer of Keras its vectors."""
    if isinstance(layer, ConfiguredLayer):
        return layer.biases
    return [weight for weight in layer.trainable_weights if len(weight.shape) == 1]


class NamedWeights(keras.layers.Layer):
    """Base class of layers and networks whose own weights a file stores by name."""

    def add_weight(self, *args: Any, name: str | None = None, **kwargs: Any) -> keras.Variable:
        """Add a weight. Its name is its key in a file. Default: its number in the layer.

        Keras would number unnamed weights by process: a file would not load.
        """
        others = self.list_own_variables()
        name = name or f"weight_{len(others)}"
        if name in [other.name for other in others]:
            raise InputError(
                "`name` must differ from the names of the other weights of the layer, since a file "
                f"stores weights by name. Received: {name!r}. Fix: give each weight its own name."
            )
        return super().add_weight(*args, name=name, **kwargs)

    def save_own_variables(self, store: Any) -> None:
        """Store each weight under its letter; Keras would number them."""
        for variable in self.list_own_variables():
            store[variable.name] = variable

    def list_own_variables(self) -> list[keras.Variable]:
        """Return the variables that a file stores for this layer, without those of its
        sub-layers.
        """
        numbered: dict[str, keras.Variable] = {}
        super().save_own_variables(numbered)
        return list(numbered.values())


class ConfiguredLayer(NamedWeights):
    """Base class of the layers of a network. A layer owns its facts: options, weight decay, growth.

    `options` names the attributes that its configuration holds, those of its base classes added.
    """

    options: tuple[str, ...] = ()
    words_option: str | None = None  # the option that says for how many words it has rows

    @property
    def accumulator_dtype(self) -> str:
        """The dtype of logits, sums and probabilities: float64 if the weights are, else float32."""
        return "float64" if self.variable_dtype == "float64" else "float32"

    @property
    def product_dtype(self) -> str:
        """The dtype of matrix products with exponentials, which overflow in float16."""
        return self.accumulator_dtype if self.compute_dtype == "float16" else self.compute_dtype

    @property
    def biases(self) -> list[keras.Variable]:
        """The trainable weights without weight decay: the vectors."""
        return [weight for weight in self.trainable_weights if len(weight.shape) == 1]

    def grow_from(self, smaller: "ConfiguredLayer", rows: NewRows) -> None:
        """Copy the weights of the same layer with fewer words.

        A layer whose weights depend on |V| overrides this method, and adds the rows of new words.
        """
        for weight, old in zip(self.weights, smaller.weights, strict=True):
            weight.assign(old)

    def list_arrays(self) -> dict[str, Any] | None:
        """Return the fields of `NetworkArrays` that the layer gives, with the present weights in
        float32.

        None: it has no form in NumPy.
        """
        return None

    def load_own_variables(self, store: Any) -> None:
        variables = {variable.name: variable for variable in self.list_own_variables()}
        if sorted(store.keys()) != sorted(variables):
            stored = sorted(store.keys())
            raise ValueError(
                f"{self.path} must have the weights {sorted(variables)}. Received: {stored}."
            )
        for name, variable in variables.items():
            variable.assign(store[name])

    def get_config(self) -> dict:
        names = [
            name for kind in reversed(type(self).__mro__) for name in vars(kind).get("options", ())
        ]
        return super().get_config() | {name: getattr(self, name) for name in names}


def l2_regularizer(weight_decay: float) -> keras.regularizers.Regularizer | None:
    """Return the L2 penalty λ/2 |θ|² of the paper's weight decay λ, whose gradient is λ θ.

    None if λ is 0.
    """
    check_least("weight_decay", weight_decay, 0.0)
    return _Penalty(weight_decay / 2) if weight_decay else None


class _Penalty(keras.regularizers.L2):
    """L2 in the dtype of Keras's losses, whatever the dtype of the weights."""

    def __call__(self, x: Tensor) -> Tensor:
        x = ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "bfloat16" else x
        return ops.cast(super().__call__(x), keras.backend.floatx())


def attach_gradient(
    gradient: Callable, results: list[Tensor], inputs: list[Tensor], saved: list[Tensor]
) -> tuple:
    """Return results with the gradients `gradient(upstream, inputs, saved)` with respect to inputs.

    `tf.custom_gradient` would keep a closure of each graph, with all weights, for ever. Here
    `gradient`, a function of a module, is registered once. A loaded SavedModel has NaN instead.
    """
    if tf.executing_eagerly():  # nothing is registered
        attach = tf.custom_gradient(
            lambda *given: (tuple(results), lambda *up: gradient(up, given, saved))
        )
        return attach(*inputs)

    def mark(*tensors: Tensor) -> list[Tensor]:
        name = _register_gradient(gradient, len(results), len(inputs))
        with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
            return tf.identity_n(tensors)[: len(results)]

    # a tape reads the map in calls only
    return tuple(tf.function(mark, autograph=False)(*results, *inputs, *saved))


@functools.cache
def _register_gradient(gradient: Callable, results: int, inputs: int) -> str:
    def of_identity(op: Any, *upstream: Tensor) -> list[Tensor | None]:
        if op is None:  # of a graph that is saved: TensorFlow asks without the tensors
            return [
                tf.cast(tf.fill(tf.shape(tensor), float("nan")), tensor.dtype)
                for tensor in upstream
            ]
        tensors = list(op.inputs)
        of_inputs = gradient(
            upstream[:results], tensors[results:][:inputs], tensors[results + inputs :]
        )
        return [None] * results + list(of_inputs) + [None] * (len(tensors) - results - inputs)

    name = f"{gradient.__module__}.{gradient.__qualname__}-{results}-{inputs}"
    tf.RegisterGradient(name)(of_identity)
    return name


class Dropout(keras.layers.Dropout):
    """Dropout that draws 16 random bits for each number instead of a float, which takes half the
    time.
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if keras.backend.backend() != "tensorflow" or not (training and self.rate):
            return super().call(inputs, training)
        size = tf.size(inputs)
        dropped = min(round(self.rate * 65536), 65535)  # a rate below 1 keeps some
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        bits = tf.random.stateless_uniform([size // 2 + 1], seed, None, None, tf.int32)
        bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
        kept = tf.cast(tf.reshape(bits, tf.shape(inputs)) >= dropped, inputs.dtype)
        return inputs * (kept * (65536 / (65536 - dropped)))
