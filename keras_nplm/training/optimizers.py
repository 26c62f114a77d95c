"""Optimisers with row-wise (lazy) sparse updates: SGD, Adagrad and Adam that leave rows without a
gradient alone.
"""

from typing import Any

import keras
import tensorflow as tf

from keras_nplm.layers.lookup import sum_repeated_rows
from keras_nplm.layers.ops import Tensor

_BASE = """
    A sparse gradient (`tf.IndexedSlices`), such as that for C or for a sampled output, updates the
    rows that it contains. A row that occurs several times in a batch is updated once, with its
    summed gradient. Weight decay is decoupled, theta <- theta - rate * decay * theta. It applies to
    the rows of the gradient, or with `dense_decay=True` to all rows, as in the paper, at the cost
    of a dense pass. Dense gradients are updated as in
    Keras. For the TensorFlow backend, with or without `jit_compile`.
"""


class Lazy(keras.optimizers.Optimizer):
    """Base class that adds weight decay and row-wise updates to an optimiser of Keras.

    A subclass names it before the optimiser of Keras, and implements `_compute_row_steps`.
    """

    sums_repeated_rows = True  # over a batch and over all replicas

    def __init__(self, *args: Any, dense_decay: bool = False, **kwargs: Any):
        for name in ("momentum", "nesterov", "amsgrad"):
            if kwargs.pop(name, 0):
                raise ValueError(
                    f"`{name}` must be 0: it moves rows without a gradient. Fix: use LazyAdam."
                )
        super().__init__(*args, **kwargs)
        self.dense_decay = dense_decay

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Any) -> None:
        learning_rate = tf.cast(learning_rate, variable.dtype)
        decay = self.weight_decay if self.weight_decay and self._use_weight_decay(variable) else 0.0
        sparse = isinstance(gradient, tf.IndexedSlices)
        if decay and (self.dense_decay or not sparse):
            variable.assign(variable * (1 - learning_rate * decay))
        if not sparse:
            self._update_dense(gradient, variable, learning_rate)
            return
        ids, values = sum_repeated_rows(gradient.indices, tf.cast(gradient.values, variable.dtype))
        rows = tf.gather(variable, ids)
        if decay and not self.dense_decay:
            rows *= 1 - learning_rate * decay
        steps = self._compute_row_steps(values, ids, variable, learning_rate)
        # copies rows: scatter_sub is ten times as slow
        variable.scatter_update(tf.IndexedSlices(rows - steps, ids))

    def _update_dense(self, gradient: Tensor, variable: keras.Variable, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate)

    def _compute_row_steps(
        self, values: Tensor, ids: Tensor, variable: keras.Variable, learning_rate: Any
    ) -> Tensor:
        """Return the steps that are subtracted from the rows of the variable.

        `ids` are distinct row ids, and `values` their summed gradients.
        """
        raise NotImplementedError

    def _apply_weight_decay(self, variables: list[keras.Variable]) -> None:
        """Do nothing: `update_step` applies weight decay, without the dense pass of Keras."""

    def get_config(self) -> dict:
        return super().get_config() | {"dense_decay": self.dense_decay}


@keras.saving.register_keras_serializable("keras_nplm")
class LazySGD(Lazy, keras.optimizers.SGD):
    __doc__ = f"""Plain stochastic gradient descent without momentum.

        theta <- theta - rate * gradient
{_BASE}
    Args:
        learning_rate: float or schedule.
        weight_decay: float or None.
        row_clipnorm: float or None, the largest norm of a row of a sparse gradient. A pointer needs
            it: a word that
            fills the context, such as `<unk>` in a foreign text, may move its row too far at once.
        dense_clipnorm: float or None, the largest norm of a dense gradient, of each weight by
            itself. An output tied to C needs it: its rows are as long as word vectors, so an
            unusual batch may move the other weights too far at once.

    Example:

    >>> C = keras.Variable([[1.0], [2.0], [3.0]])
    >>> optimizer = LazySGD(0.1, weight_decay=1.0)
    >>> twice = tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 1]), tf.constant([3, 1]))
    >>> optimizer.apply([twice], [C])
    >>> [round(x, 3) for x in C.numpy().ravel().tolist()]
    [1.0, 1.6, 3.0]
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        weight_decay: float | None = None,
        row_clipnorm: float | None = None,
        dense_clipnorm: float | None = None,
        name: str = "lazy_sgd",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, name=name, **kwargs)
        self.row_clipnorm = row_clipnorm
        self.dense_clipnorm = dense_clipnorm

    def _update_dense(self, gradient: Tensor, variable: keras.Variable, learning_rate: Any) -> None:
        gradient = tf.cast(gradient, variable.dtype)
        if self.dense_clipnorm:
            gradient = tf.clip_by_norm(gradient, self.dense_clipnorm)
        # one pass
        tf.raw_ops.ResourceApplyGradientDescent(
            var=variable.handle, alpha=learning_rate, delta=gradient
        )

    def _compute_row_steps(
        self, values: Tensor, ids: Tensor, variable: keras.Variable, learning_rate: Any
    ) -> Tensor:
        if self.row_clipnorm and len(values.shape) > 1:
            norms = tf.norm(values, axis=1, keepdims=True)
            values *= self.row_clipnorm / tf.maximum(norms, self.row_clipnorm)
        return learning_rate * values

    def get_config(self) -> dict:
        config = super().get_config()
        config["row_clipnorm"] = self.row_clipnorm
        config["dense_clipnorm"] = self.dense_clipnorm
        return config


@keras.saving.register_keras_serializable("keras_nplm")
class LazyAdagrad(Lazy, keras.optimizers.Adagrad):
    __doc__ = f"""Adagrad with sparse updates.

    A row and its sum of squared gradients change when it has a gradient.
{_BASE}
    For sparse gradients this equals dense Adagrad, where a row with a zero gradient does not change
    either. The
    arguments are the same as in `keras.optimizers.Adagrad`.

    Reference: Duchi, Hazan & Singer (2011).
    """

    def _compute_row_steps(
        self, values: Tensor, ids: Tensor, variable: keras.Variable, learning_rate: Any
    ) -> Tensor:
        accumulator = self._accumulators[self._get_variable_index(variable)].value
        sums = tf.gather(accumulator, ids) + tf.square(values)
        accumulator.scatter_update(tf.IndexedSlices(sums, ids))
        return learning_rate * values / tf.sqrt(sums + self.epsilon)


@keras.saving.register_keras_serializable("keras_nplm")
class LazyAdam(Lazy, keras.optimizers.Adam):
    __doc__ = f"""Lazy Adam: a row and its moments change only when the row has a gradient.
{_BASE}
    Dense Adam differs: it also moves rows with a zero gradient, by their decaying first moment. The
    bias correction
    counts all steps. The arguments are the same as in `keras.optimizers.Adam`, without `amsgrad`.

    Reference: Kingma & Ba (2015).
    """

    def _compute_row_steps(
        self, values: Tensor, ids: Tensor, variable: keras.Variable, learning_rate: Any
    ) -> Tensor:
        index = self._get_variable_index(variable)
        first = self._momentums[index].value
        second = self._velocities[index].value
        step = tf.cast(self.iterations.value + 1, variable.dtype)
        rate = learning_rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        m = tf.gather(first, ids) * self.beta_1 + values * (1 - self.beta_1)
        v = tf.gather(second, ids) * self.beta_2 + tf.square(values) * (1 - self.beta_2)
        first.scatter_update(tf.IndexedSlices(m, ids))
        second.scatter_update(tf.IndexedSlices(v, ids))
        return rate * m / (tf.sqrt(v) + self.epsilon)
