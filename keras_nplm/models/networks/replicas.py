"""What NPLM needs to train on several replicas: tf.distribute strategies, several workers, uneven
batches.
"""

import keras
import tensorflow as tf

from keras_nplm.io.errors import check_argument
from keras_nplm.layers.ops import Tensor


def check_replicable(model: keras.Model) -> None:
    """Refuse options of `compile` that fail or are silently wrong on several replicas."""
    steps = model.steps_per_execution
    jit = model.jit_compile
    accumulation = getattr(model.optimizer, "gradient_accumulation_steps", None)
    for option, fits, wanted, received in (
        ("steps_per_execution", steps <= 1, 1, steps),  # Keras's loop fails
        ("jit_compile", jit is not True, False, jit),  # XLA sees one replica only
        ("gradient_accumulation_steps", not accumulation, None, accumulation),
    ):
        check_argument(option, fits, f"{wanted} under tf.distribute", received, "leave it out.")


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
