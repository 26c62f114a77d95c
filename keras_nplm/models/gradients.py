"""Sum the gradients of a row before an optimiser sees them: repeated words of a batch, replicas, clipping."""

import types
from collections.abc import Iterable

import keras

from keras_nplm.layers.lookup import sum_repeated_rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.collectives import sum_over_replicas


def sum_gradients_first(optimizer: keras.optimizers.Optimizer) -> None:
    """Make an optimiser receive each row's whole gradient, summed over the batch and over replicas.

    A lookup has a sparse gradient, `tf.IndexedSlices`, with one slice per occurrence of a word. Keras's Adam, Adagrad
    and RMSprop square each slice instead of their sum. Clipping sees the slices of one replica. So the sums are taken
    first: over replicas, then over slices of the same row. Then every optimiser and every kind of clipping gives the
    update of a dense gradient. Lazy optimisers, and SGD without momentum, both without clipping, give that update
    already: only the sum over replicas changes, which several workers send as fewer messages. The optimiser is changed
    in place. For the TensorFlow backend.

    `NPLM.compile` does it. In a training loop of your own, call it once, before the first update.

    Args:
        optimizer: a Keras optimiser.

    Example:

    >>> import tensorflow as tf
    >>> C, optimizer = keras.Variable([[0.0], [0.0]]), keras.optimizers.Adagrad(1.0, 1e-9, epsilon=0.0)
    >>> sum_gradients_first(optimizer)
    >>> twice = tf.IndexedSlices(tf.constant([[1.0], [1.0]]), tf.constant([1, 1]), dense_shape=tf.constant([2, 1]))
    >>> optimizer.apply([twice], [C])
    >>> C.numpy().round(4).tolist()  # 2 / sqrt(2²), and not 2 / sqrt(1² + 1²)
    [[0.0], [-1.0]]
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if getattr(optimizer, "sums_gradients_first", False):
        return
    optimizer.sums_gradients_first = True
    if _sums_rows_itself(optimizer):
        optimizer._all_reduce_sum_gradients = types.MethodType(lambda self, pairs: _sum_pairs(pairs), optimizer)
        return
    clip = optimizer._clip_gradients
    optimizer._clip_gradients = lambda gradients: clip([sum_rows(g) for g in sum_over_replicas(list(gradients))])
    optimizer._all_reduce_sum_gradients = types.MethodType(lambda self, pairs: pairs, optimizer)


def _sum_pairs(pairs: Iterable[tuple]) -> list[tuple]:
    """Return pairs of a gradient and its variable, with the gradients summed over replicas."""
    gradients, variables = zip(*pairs, strict=True)
    return list(zip(sum_over_replicas(list(gradients)), variables, strict=True))


def _sums_rows_itself(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether slices of one row add up in the optimiser: a lazy one, or SGD without momentum; no clipping."""
    if any(getattr(optimizer, name) for name in ("clipnorm", "global_clipnorm", "clipvalue")):
        return False
    plain = type(optimizer) is keras.optimizers.SGD and not optimizer.momentum
    return plain or getattr(optimizer, "sums_repeated_rows", False)


def sum_rows(gradient: Tensor) -> Tensor:
    """Return a gradient with at most one slice per row: sparse slices of the same row are summed.

    Args:
        gradient: a tensor, `tf.IndexedSlices` or None.
    """
    import tensorflow as tf

    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    ids, values = sum_repeated_rows(gradient.indices, gradient.values)
    return tf.IndexedSlices(values, ids, gradient.dense_shape)
