"""Sum gradients over replicas; workers send the rows of all lookups as one message."""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def sum_over_replicas(gradients: list) -> list:
    """Return the gradients summed over all replicas; sparse ones have the slices of all replicas.

    tf.distribute sends three messages for each sparse gradient, one after the other. Between workers each message costs
    more than its bytes: here all sparse gradients are one message.

    Args:
        gradients: tensors, `tf.IndexedSlices` or None, of one replica.
    """
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return gradients
    packs = isinstance(replica.strategy, tf.distribute.MultiWorkerMirroredStrategy)

    def is_packed(gradient: "tf.Tensor | tf.IndexedSlices | None") -> bool:
        return packs and isinstance(gradient, tf.IndexedSlices)

    packed = [gradient for gradient in gradients if is_packed(gradient)]
    others = [gradient for gradient in gradients if gradient is not None and not is_packed(gradient)]
    others = [tf.cast(gradient, _sent_dtype(gradient)) for gradient in others]
    gathered = iter(gather_slices(packed, replica) if packed else [])
    summed = iter(replica.all_reduce(tf.distribute.ReduceOp.SUM, others) if others else [])
    return [None if g is None else tf.cast(next(gathered if is_packed(g) else summed), g.dtype) for g in gradients]


def gather_slices(gradients: "list[tf.IndexedSlices]", replica: "tf.distribute.ReplicaContext") -> list:
    """Return sparse gradients with the slices of all replicas, sent as one vector of 32-bit words.

    The vector of a replica has the number of slices of each gradient, then for each gradient its indices and the bits
    of its values. Values of 16 bits travel as float32.

    Args:
        gradients: sparse gradients of this replica; the shape of a row is known.
        replica: the replica context.
    """
    import tensorflow as tf

    parts = [tf.stack([tf.shape(gradient.indices)[0] for gradient in gradients])]
    for gradient in gradients:
        values = tf.cast(gradient.values, _sent_dtype(gradient.values))
        parts += [tf.cast(gradient.indices, tf.int32), tf.reshape(tf.bitcast(values, tf.int32), [-1])]
    words = replica.all_gather(tf.concat(parts, axis=0), axis=0)
    found, place = [([], []) for _ in gradients], 0
    for _ in range(replica.num_replicas_in_sync):
        numbers = tf.unstack(words[place : place + len(gradients)], len(gradients))
        place += len(gradients)
        for gradient, number, (ids, values) in zip(gradients, numbers, found, strict=True):
            dtype, row = _sent_dtype(gradient.values), gradient.values.shape[1:]
            shape = [number, *row, *([2] if dtype.size == 8 else [])]
            end = place + number + number * math.prod(row) * (dtype.size // 4)
            ids.append(words[place : place + number])
            values.append(tf.bitcast(tf.reshape(words[place + number : end], shape), dtype))
            place = end
    return [
        tf.IndexedSlices(
            tf.cast(tf.concat(values, axis=0), gradient.values.dtype),
            tf.cast(tf.concat(ids, axis=0), gradient.indices.dtype),
            gradient.dense_shape,
        )
        for gradient, (ids, values) in zip(gradients, found, strict=True)
    ]


def _sent_dtype(values: "tf.Tensor") -> "tf.DType":
    import tensorflow as tf

    return values.dtype if values.dtype.size >= 4 else tf.float32
