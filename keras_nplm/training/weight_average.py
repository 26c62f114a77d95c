"""Exponential moving average of the weights (Polyak averaging), validated and saved in place of the weights.

Keras's `use_ema=True` passes over all weights at every step: updates take four times as long as with the average here.
"""

import keras
import tensorflow as tf

UPDATES_PER_AVERAGE = 32  # at least: each update of the average is a pass over all weights


class WeightAverage:
    """Exponential moving average of the trainable weights, which can be swapped with the weights.

        θ̄ <- β^s θ̄ + (1 - β^s) θ    after every s updates, from θ̄ = θ after the first s

    `momentum` is β, of a single update: the average spans about 1/(1-β) updates.

    Reference: Polyak & Juditsky (1992), Acceleration of stochastic approximation by averaging.
    """

    def __init__(self, model: keras.Model, momentum: float):
        self.weights = model.trainable_weights
        self.momentum = momentum
        self.variables = [tf.Variable(weight.numpy(), trainable=False) for weight in self.weights]

    def update(self, updates: int, interval: int) -> None:
        """Add the present weights, after so many updates in all, to the average of one call per `interval` updates."""
        keep = self.momentum**interval if updates > interval else 0.0
        for average, weight in zip(self.variables, self.weights, strict=True):
            average.assign(keep * average + (1 - keep) * tf.convert_to_tensor(weight.value))

    def swap(self) -> None:
        """Exchange the values of weights and average."""
        for average, weight in zip(self.variables, self.weights, strict=True):
            value = weight.numpy()
            weight.assign(average.numpy())
            average.assign(value)
