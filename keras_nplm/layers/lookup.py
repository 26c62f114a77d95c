"""Embedding lookup: rows of a matrix by ids, their sparse gradients, and masks of rows."""

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf


def rows(variable: keras.Variable, ids: Tensor, sum_gradient: bool = False) -> Tensor:
    """Return `variable[ids]`, [*ids.shape, …], of a weight [V, …] created with `autocast=False`.

    The gradient is `tf.IndexedSlices`: it holds the rows of the ids only. With
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
    distinct, place = _find_distinct(tf.reshape(ids, [-1]))
    vectors = tf.gather(variable.value, distinct)
    # the gradient of a reshape is dense: the sum
    vectors = tf.gather(tf.reshape(vectors, tf.shape(vectors)), place)
    return tf.reshape(vectors, tf.concat([tf.shape(ids), tf.shape(vectors)[1:]], axis=0))


def ensure_width(ids: Tensor, width: int) -> Tensor:
    """Return ids [B, width]. A width that tf.data does not know is checked in the graph."""
    if keras.backend.backend() != "tensorflow":
        return ops.reshape(ids, (ids.shape[0] or -1, width))
    return tf.ensure_shape(ids, [None, width])


def sum_repeated_rows(ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return distinct ids and the sum of the rows of each, for sparse gradients.

    The rows are sorted by id first, which costs a copy: sums of neighbouring rows are several times
    as fast as sums of scattered rows. The ids ascend.
    """
    # XLA has no sum of sorted segments
    if _is_compiled():
        ids, places = _find_distinct(ids)
        return ids, tf.math.unsorted_segment_sum(values, places, tf.size(ids))
    order = tf.argsort(ids, stable=True)
    ids, places = tf.unique(tf.gather(ids, order))
    return ids, tf.math.segment_sum(tf.gather(values, order), places)


def _find_distinct(ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct ids, and the place of each id among them."""
    if not _is_compiled():
        return tf.unique(ids)
    # `tf.unique` would be a loop over the ids
    order = tf.argsort(ids, stable=True)
    ids = tf.gather(ids, order)
    is_first = tf.concat([tf.ones_like(ids[:1], tf.bool), ids[1:] != ids[:-1]], axis=0)
    places = tf.cumsum(tf.cast(is_first, tf.int32)) - 1
    places = tf.scatter_nd(order[:, None], places, tf.shape(ids))
    return tf.boolean_mask(ids, is_first), places


def _is_compiled() -> bool:
    """Return whether this is within a function that XLA compiles."""
    # no public function tells
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext

    return GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())


def zero_masked_rows(vectors: Tensor, mask: Tensor) -> Tensor:
    """Return vectors * mask. A mask of ones costs no pass over the vectors, forward or
    backward, on TensorFlow.
    """
    if keras.backend.backend() != "tensorflow":
        return vectors * mask
    return tf.cond(tf.reduce_any(tf.not_equal(mask, 1)), lambda: vectors * mask, lambda: vectors)
