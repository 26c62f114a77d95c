"""The base class of layers, the L2 penalty of weight decay, and operations with a gradient of their own."""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

Tensor: TypeAlias = Any  # of Keras's backend: with values, or a symbol


class ConfiguredLayer(keras.layers.Layer):
    """Layer whose configuration holds the attributes that `options` names, here and in its base classes."""

    options: tuple[str, ...] = ()

    def get_config(self) -> dict:
        names = [name for kind in reversed(type(self).__mro__) for name in vars(kind).get("options", ())]
        return super().get_config() | {name: getattr(self, name) for name in names}


def l2_regularizer(weight_decay: float) -> keras.regularizers.Regularizer | None:
    """Return the L2 penalty λ/2 |θ|² of the paper's weight decay λ, whose gradient is λ θ. None if λ is 0."""
    return _Penalty(weight_decay / 2) if weight_decay else None


class _Penalty(keras.regularizers.L2):
    """L2 in the dtype of Keras's losses, whatever the dtype of the weights."""

    def __call__(self, x: Tensor) -> Tensor:
        x = ops.cast(x, "float32") if keras.backend.standardize_dtype(x.dtype) == "bfloat16" else x
        return ops.cast(super().__call__(x), keras.backend.floatx())


def attach_gradient(gradient: Callable, results: list[Tensor], inputs: list[Tensor], saved: list[Tensor]) -> tuple:
    """Return results with the gradients `gradient(upstream, inputs, saved)` with respect to inputs.

    `tf.custom_gradient` would keep a closure of each graph, with all weights, for ever. Here `gradient`, a function of
    a module, is registered once. A loaded SavedModel has NaN instead.
    """
    if tf.executing_eagerly():  # nothing is registered
        attach = tf.custom_gradient(lambda *given: (tuple(results), lambda *up: gradient(up, given, saved)))
        return attach(*inputs)

    def mark(*tensors: Tensor) -> list[Tensor]:
        name = _register_gradient(gradient, len(results), len(inputs))
        with tf.compat.v1.get_default_graph().gradient_override_map({"IdentityN": name}):
            return tf.identity_n(tensors)[: len(results)]

    return tuple(tf.function(mark, autograph=False)(*results, *inputs, *saved))  # a tape reads the map in calls only


@functools.cache
def _register_gradient(gradient: Callable, results: int, inputs: int) -> str:
    def of_identity(op: Any, *upstream: Tensor) -> list[Tensor | None]:
        if op is None:  # of a graph that is saved: TensorFlow asks without the tensors
            return [tf.cast(tf.fill(tf.shape(tensor), float("nan")), tensor.dtype) for tensor in upstream]
        tensors = list(op.inputs)
        of_inputs = gradient(upstream[:results], tensors[results:][:inputs], tensors[results + inputs :])
        return [None] * results + list(of_inputs) + [None] * (len(tensors) - results - inputs)

    name = f"{gradient.__module__}.{gradient.__qualname__}-{results}-{inputs}"
    tf.RegisterGradient(name)(of_identity)
    return name


class Dropout(keras.layers.Dropout):
    """Dropout that draws 16 random bits for each number instead of a float, which takes half the time."""

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if keras.backend.backend() != "tensorflow" or not (training and self.rate):
            return super().call(inputs, training)
        size, dropped = tf.size(inputs), round(self.rate * 65536)
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        bits = tf.random.stateless_uniform([size // 2 + 1], seed, None, None, tf.int32)
        bits = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
        kept = tf.cast(tf.reshape(bits, tf.shape(inputs)) >= dropped, inputs.dtype)
        return inputs * (kept * (65536 / (65536 - dropped)))
