"""Embedding lookup: rows of a matrix by ids, their sparse gradients, and masks of rows."""

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf


def rows(variable: keras.Variable, ids: Tensor, sum_gradient: bool = False) -> Tensor:
    """Return `variable[ids]`, [*ids.shape, …], of a weight [V, …] created with `autocast=False`.

    On TensorFlow the gradient is `tf.IndexedSlices`: it holds the rows of the ids only. With
    `sum_gradient` it has one slice for each distinct id, the sum over its occurrences. Most Keras
    optimisers need that: they square each slice. It costs a pass over the ids. Ids out of range are
    clipped, so the caller must check them.
    """
    ids = ops.clip(ids, 0, variable.shape[0] - 1)
    if keras.backend.backend() != "tensorflow":
        return ops.take(variable, ids, axis=0)
    if not sum_gradient:
        # a gather from the variable itself: reading it first would copy it
        return tf.gather(variable.value, ids)
    distinct, place = tf.unique(tf.reshape(ids, [-1]))
    vectors = tf.gather(variable.value, distinct)
    # the gradient of a reshape is dense: the sum
    vectors = tf.gather(tf.reshape(vectors, tf.shape(vectors)), place)
    return tf.reshape(vectors, tf.concat([tf.shape(ids), tf.shape(vectors)[1:]], axis=0))


def ensure_width(ids: Tensor, width: int) -> Tensor:
    """Return ids [B, width] of a width that is not known yet. It is checked when the graph runs."""
    if keras.backend.backend() != "tensorflow":
        return ops.reshape(ids, (-1, width))
    return tf.ensure_shape(ids, [None, width])


def sum_repeated_rows(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return distinct ids and the sum of the rows of each, for sparse gradients. TensorFlow only.

    The rows are sorted by id first, which costs a copy: sums of neighbouring rows are several times
    as fast as sums of scattered rows. The ids ascend, except within a function that XLA compiles.
    """
    # no public function tells
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    # XLA has no sum of sorted segments
    if GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        ids, places = tf.unique(ids)
        return ids, tf.math.unsorted_segment_sum(values, places, tf.size(ids))
    order = tf.argsort(ids, stable=True)
    ids, places = tf.unique(tf.gather(ids, order))
    return ids, tf.math.segment_sum(tf.gather(values, order), places)


def zero_masked_rows(vectors: Tensor, mask: Tensor) -> Tensor:
    """Return vectors * mask.

    On TensorFlow a mask of ones costs no pass over the vectors, forward or backward.
    """
    if keras.backend.backend() != "tensorflow":
        return vectors * mask
    return tf.cond(tf.reduce_any(tf.not_equal(mask, 1)), lambda: vectors * mask, lambda: vectors)
