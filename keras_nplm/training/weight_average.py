"""The exponential moving average of a network's weights along a training, to be validated and kept in their place."""

import keras
import tensorflow as tf

EVERY = 32  # updates at least between two looks at the weights, each of which passes over all of them


class WeightAverage:
    """An exponential moving average of the trainable weights, and the exchange of one for the other.

        θ̄ <- β^s θ̄ + (1 - β^s) θ    after every s updates, from θ̄ = θ after the first s

    A gradient that touches few rows makes an update that costs no pass over C and U; an average does cost one, so that
    it is taken every `EVERY` updates or so, with the momentum of as many.

    Args:
        model: a network that is built.
        momentum: float in (0, 1), β, of one update: the average is over about 1/(1-β) updates.

    Example:

    >>> from keras_nplm import NPLM
    >>> model = NPLM(vocabulary_size=20, order=3)
    >>> average = WeightAverage(model, momentum=0.5)
    >>> b = model.prob.b
    >>> _ = b.assign(0 * b + 1); average.update(1, 1)
    >>> _ = b.assign(0 * b + 3); average.update(2, 1)
    >>> average.swap(); float(b.numpy()[0])
    2.0
    >>> average.swap(); float(b.numpy()[0])
    3.0

    Reference: Polyak & Juditsky (1992), Acceleration of stochastic approximation by averaging.
    """

    def __init__(self, model: keras.Model, momentum: float):
        self.weights = model.trainable_weights
        self.momentum = momentum
        self.variables = [tf.Variable(weight.numpy(), trainable=False) for weight in self.weights]

    def update(self, updates: int, since: int) -> None:
        """Take the weights in, after so many updates in all and since the last time."""
        kept = self.momentum**since if updates > since else 0.0
        for average, weight in zip(self.variables, self.weights, strict=True):
            average.assign(kept * average + (1 - kept) * tf.convert_to_tensor(weight.value))

    def swap(self) -> None:
        """Put the average in the weights' place, and these in the average's."""
        for average, weight in zip(self.variables, self.weights, strict=True):
            held = weight.numpy()
            weight.assign(average.numpy())
            average.assign(held)
