"""Optimisers whose update costs what the gradient touches: rows without a gradient are left alone."""

import keras
import tensorflow as tf

_BASE = """
    A gradient that touches few rows, `tf.IndexedSlices`, as those of C and of a sampled output do, updates these rows
    alone: a row that occurs several times in a batch counts once, with its summed gradient. Weight decay is
    decoupled, theta <- theta - rate * decay * theta, and falls on the rows that a step touches, or with
    `dense_decay=True` on all, at their cost: the paper's. With a dense gradient all is as in Keras. For the TensorFlow
    backend; right with and without `jit_compile`.
"""


class Lazy:
    """Weight decay and row-wise updates over one of Keras's optimisers.

    Each has `_update_rows`: the gradient, the distinct ids in it, and where each of its rows stands among these.
    """

    sums_repeated_rows = True  # a row that occurs several times in a batch, or at several replicas, counts once

    def __init__(self, *args, dense_decay: bool = False, **kwargs):
        super().__init__(*args, **kwargs)
        self.dense_decay = dense_decay

    def update_step(self, gradient, variable, learning_rate):
        learning_rate = tf.cast(learning_rate, variable.dtype)
        decay = self.weight_decay if self.weight_decay and self._use_weight_decay(variable) else 0.0
        sparse = isinstance(gradient, tf.IndexedSlices)
        if decay and (self.dense_decay or not sparse):
            variable.assign(variable * (1 - learning_rate * decay))
        if not sparse:
            self._update_dense(gradient, variable, learning_rate)
            return
        ids, places = tf.unique(gradient.indices)
        if decay and not self.dense_decay:
            variable.scatter_sub(tf.IndexedSlices((learning_rate * decay) * tf.gather(variable, ids), ids))
        self._update_rows(gradient, ids, places, variable, learning_rate)

    def _update_dense(self, gradient, variable, learning_rate):
        super().update_step(gradient, variable, learning_rate)

    def _apply_weight_decay(self, variables):
        """Keras would pass over every weight here; `update_step` does it."""

    def get_config(self):
        return super().get_config() | {"dense_decay": self.dense_decay}


@keras.saving.register_keras_serializable("keras_nplm")
class LazySGD(Lazy, keras.optimizers.SGD):
    __doc__ = f"""Plain stochastic gradient descent, theta <- theta - rate * gradient, without momentum.
{_BASE}
    Args:
        learning_rate: float or schedule.
        weight_decay: float or None.

    Example:

    >>> C = keras.Variable([[1.0], [2.0], [3.0]])
    >>> optimizer = LazySGD(0.1, weight_decay=1.0)
    >>> optimizer.apply([tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 1]), tf.constant([3, 1]))], [C])
    >>> [round(x, 3) for x in C.numpy().ravel().tolist()]
    [1.0, 1.6, 3.0]
    """

    def __init__(self, learning_rate=0.01, weight_decay=None, name="lazy_sgd", **kwargs):
        if kwargs.pop("momentum", 0.0) or kwargs.pop("nesterov", False):
            raise ValueError("LazySGD has no momentum: it would move rows that a step does not touch.")
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)

    def _update_dense(self, gradient, variable, learning_rate):
        gradient = tf.cast(gradient, variable.dtype)
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=learning_rate, delta=gradient)  # one pass

    def _update_rows(self, gradient, ids, places, variable, learning_rate):
        values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
        variable.scatter_sub(tf.IndexedSlices(learning_rate * values, ids))


@keras.saving.register_keras_serializable("keras_nplm")
class LazyAdagrad(Lazy, keras.optimizers.Adagrad):
    __doc__ = f"""Adagrad: the sums of squared gradients of a row grow, and it moves, when a step touches it.
{_BASE}
    For sparse gradients this is Adagrad itself: a row without a gradient would neither grow nor move. Arguments as
    `keras.optimizers.Adagrad`.

    Reference: Duchi, Hazan & Singer (2011).
    """

    def _update_rows(self, gradient, ids, places, variable, learning_rate):
        values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
        accumulator = self._accumulators[self._get_variable_index(variable)].value
        grown = tf.gather(accumulator, ids) + tf.square(values)
        accumulator.scatter_update(tf.IndexedSlices(grown, ids))
        variable.scatter_sub(tf.IndexedSlices(learning_rate * values / tf.sqrt(grown + self.epsilon), ids))


@keras.saving.register_keras_serializable("keras_nplm")
class LazyAdam(Lazy, keras.optimizers.Adam):
    __doc__ = f"""Adam, but the moments of a row decay, and it moves, only when a step touches it.
{_BASE}
    So it differs from Adam where a row rests: Adam goes on moving it by what is left of its first moment. The
    corrections of the bias count all steps. Arguments as `keras.optimizers.Adam`, without `amsgrad`.

    Reference: Kingma & Ba (2015).
    """

    def __init__(self, *args, amsgrad: bool = False, **kwargs):
        if amsgrad:
            raise ValueError("LazyAdam has no amsgrad.")
        super().__init__(*args, **kwargs)

    def _update_rows(self, gradient, ids, places, variable, learning_rate):
        values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
        index = self._get_variable_index(variable)
        first, second = self._momentums[index].value, self._velocities[index].value
        step = tf.cast(self.iterations.value + 1, variable.dtype)
        rate = learning_rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        m = tf.gather(first, ids) * self.beta_1 + values * (1 - self.beta_1)
        v = tf.gather(second, ids) * self.beta_2 + tf.square(values) * (1 - self.beta_2)
        first.scatter_update(tf.IndexedSlices(m, ids))
        second.scatter_update(tf.IndexedSlices(v, ids))
        variable.scatter_sub(tf.IndexedSlices(rate * m / (tf.sqrt(v) + self.epsilon), ids))


OPTIMIZERS = {"sgd": LazySGD, "adagrad": LazyAdagrad, "adam": LazyAdam}
