"""Exponential moving average of the weights (Polyak averaging), validated and saved in place of the
weights.

Keras's `use_ema=True` passes over all weights at every step: updates take four times as long as
with the average here.
"""

import contextlib
from collections.abc import Iterator

import keras
import tensorflow as tf

_UPDATES_PER_AVERAGE = 32  # at least: each update of the average is a pass over all weights


def round_interval(least: int, model: keras.Model) -> int:
    """Return so many updates or more, a multiple of those that `fit` executes at once."""
    executed = model.steps_per_execution
    return -(-least // executed) * executed


class WeightAverage:
    """Exponential moving average of the trainable weights, which can be swapped with the weights.

        θ̄ <- β^s θ̄ + (1 - β^s) θ    after every s updates, from θ̄ = θ after the first s

    `momentum` is β, of a single update: the average spans about 1/(1-β) updates. `interval` is s, a
    multiple of the updates that `fit` executes at once.

    Reference: Polyak & Juditsky (1992), Acceleration of stochastic approximation by averaging.
    """

    def __init__(self, model: keras.Model, momentum: float):
        self.weights = model.trainable_weights
        self.momentum = momentum
        self.interval = round_interval(_UPDATES_PER_AVERAGE, model)
        self.averages = [tf.Variable(weight.numpy(), trainable=False) for weight in self.weights]

    def update(self, updates: int) -> None:
        """Add the present weights, after so many updates in all, to the average."""
        keep = self.momentum**self.interval if updates > self.interval else 0.0
        self._update_in_graph(tf.constant(keep, tf.float64))

    @tf.function(autograph=False)
    def _update_in_graph(self, keep: tf.Tensor) -> None:
        for average, weight in zip(self.averages, self.weights, strict=True):
            share = tf.cast(keep, average.dtype)
            average.assign(share * average + (1 - share) * tf.convert_to_tensor(weight.value))

    @contextlib.contextmanager
    def replace_weights(self) -> Iterator[None]:
        """Let the weights have the values of the average in the block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for average, weight in zip(self.averages, self.weights, strict=True):
            value = weight.numpy()
            weight.assign(average.numpy())
            average.assign(value)
