"""Whole gradients of rows before an optimiser sees them: repeated words of a batch, replicas,
clipping.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_nplm.layers.lookup import sum_repeated_rows
from keras_nplm.layers.ops import Tensor


def sum_gradients(gradients: Sequence) -> list:
    """Sum the slices of sparse gradients that have the same row, as Keras's optimisers and clipping
    need it.

    Adam, Adagrad and RMSprop square each slice, one per occurrence of a word, instead of their sum.
    `NPLM.fit` does it. A training loop of your own calls it before `optimizer.apply_gradients`.

    Args:
        gradients: tensors, `tf.IndexedSlices` or None.

    Returns:
        the gradients; sparse ones have one slice for each distinct row.

    Example:

    >>> import tensorflow as tf
    >>> C = keras.Variable([[0.0], [0.0]])
    >>> optimizer = keras.optimizers.Adagrad(1.0, 1e-9, epsilon=0.0)
    >>> ones = tf.constant([[1.0], [1.0]])
    >>> twice = tf.IndexedSlices(ones, tf.constant([1, 1]), dense_shape=tf.constant([2, 1]))
    >>> optimizer.apply(sum_gradients([twice]), [C])
    >>> C.numpy().round(4).tolist()  # 2 / sqrt(2²), and not 2 / sqrt(1² + 1²)
    [[0.0], [-1.0]]
    """

    def sum_rows(gradient: Tensor) -> Tensor:
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient
        ids, values = sum_repeated_rows(gradient.indices, gradient.values)
        return tf.IndexedSlices(values, ids, gradient.dense_shape)

    return list(map(sum_rows, gradients))


def complete_gradients(optimizer: keras.optimizers.Optimizer, gradients: Sequence) -> list:
    """Return gradients with which an optimiser takes the step of the dense gradient of the whole
    batch.

    On several replicas, an optimiser that needs the whole gradient gets it on the first one, and
    zeros on the others. Then the sum by Keras is right. Lazy optimisers and SGD, without clipping,
    add slices up themselves.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    clips = any(getattr(optimizer, name) for name in ("clipnorm", "global_clipnorm", "clipvalue"))
    plain = type(optimizer) is keras.optimizers.SGD
    adds_up = not clips and (plain or getattr(optimizer, "sums_repeated_rows", False))
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        gradients = list(gradients) if adds_up else sum_gradients(gradients)
        return _avoid_sum_of_dense(gradients)
    # a frequent word occurs dozens of times in a batch, and is sent once
    gradients = sum_gradients(gradients)
    # 16 bits: no sum
    gradients = [g if g is None or g.dtype.size > 2 else tf.cast(g, tf.float32) for g in gradients]
    return (
        gradients
        if adds_up
        else [_complete_on_first(gradient, replica, clips) for gradient in gradients]
    )


def _avoid_sum_of_dense(gradients: list) -> list:
    """Make one of dense gradients sparse: TensorFlow keeps Keras's sum of dense ones over a replica
    for ever.
    """
    dense = [
        place
        for place, gradient in enumerate(gradients)
        if tf.is_tensor(gradient) and gradient.shape.rank
    ]
    if dense and not any(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        place = min(dense, key=lambda place: gradients[place].shape.num_elements())
        gradient = gradients[place]
        gradients[place] = tf.IndexedSlices(
            gradient, tf.range(tf.shape(gradient)[0]), tf.shape(gradient)
        )
    return gradients


def _complete_on_first(gradient: Tensor, replica: Any, clips: bool) -> Tensor:
    is_first = tf.equal(replica.replica_id_in_sync_group, 0)
    if isinstance(gradient, tf.IndexedSlices):
        ids, values = replica.all_gather([gradient.indices, gradient.values], axis=0)
        ids, values = sum_repeated_rows(ids, values)
        number = tf.where(is_first, tf.size(ids), 0)
        return tf.IndexedSlices(values[:number], ids[:number], gradient.dense_shape)
    if gradient is None or not clips:
        return gradient  # Keras sums it
    total = replica.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
    return tf.where(is_first, total, tf.zeros_like(total))
