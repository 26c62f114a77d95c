"""Training on several replicas: parts of a batch that split unevenly, and several workers."""

import tensorflow as tf

from keras_nplm.layers.ops import Tensor


def average_over_replicas(number: Tensor) -> Tensor:
    """Return the mean number of n-grams in the replicas' parts of a batch, which may split
    unevenly.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return number
    return replica.all_reduce(tf.distribute.ReduceOp.MEAN, tf.cast(number, tf.float32))


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Return whether a strategy has replicas in other processes, too."""
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return len(strategy.cluster_resolver.cluster_spec().as_dict().get("worker", ())) > 1
