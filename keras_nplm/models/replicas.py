"""What NPLM needs to train on several replicas: tf.distribute strategies, several workers, uneven batches."""

from typing import Any

import keras
from keras import ops

from keras_nplm.io.errors import check_argument
from keras_nplm.layers.ops import Tensor


class ReplicatedTraining:
    """Mixin of a `keras.Model` that trains under tf.distribute, also where Keras's own `fit` fails or is wrong."""

    def check_replicable(self) -> None:
        """Refuse options that fail or are silently wrong on several replicas.

        Raises:
            InputError: such an option is on.
        """
        optimizer = self.optimizer
        steps, accumulation = self.steps_per_execution, optimizer.gradient_accumulation_steps
        under = "under tf.distribute"
        check_argument("steps_per_execution", steps <= 1, f"1 {under}", steps, "leave it out; Keras's loop fails.")
        jit = self.jit_compile
        check_argument(
            "jit_compile", jit is not True, f"False {under}", jit, "leave it out; XLA sees one replica only."
        )
        accumulates = f"None {under}"
        check_argument("gradient_accumulation_steps", not accumulation, accumulates, accumulation, "leave it out.")

    def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
        """Build from the known shape: Keras would read a batch, and fails where replicas have parts of it."""
        del iterator, data_batch
        batch = keras.KerasTensor((None, self.order - 1), "int32"), keras.KerasTensor((None,), "int32")
        super()._maybe_symbolic_build(data_batch=batch)

    def add_worker_dimension(self, logs: dict) -> dict:
        """Return logs that Keras can average over several workers: it needs a first dimension."""
        several = keras.backend.backend() == "tensorflow" and has_several_workers(self.distribute_strategy)
        return {name: ops.reshape(value, (1,)) for name, value in logs.items()} if several else logs

    def weight_by_examples(self, mean: Tensor, number: Tensor) -> Tensor:
        """Return the mean loss of this replica's part of a batch, with the gradient's weight by its number of n-grams.

        Keras gives all parts the same weight, which is wrong for a batch that does not split evenly.
        """
        if keras.backend.backend() != "tensorflow" or self.distribute_strategy.num_replicas_in_sync == 1:
            return mean
        import tensorflow as tf

        replica, number = tf.distribute.get_replica_context(), tf.cast(number, mean.dtype)
        total = replica.all_reduce(tf.distribute.ReduceOp.SUM, number)
        share = mean * number * replica.num_replicas_in_sync / tf.maximum(total, 1)
        return share + tf.stop_gradient(mean - share)


def has_several_workers(strategy: Any) -> bool:
    """Return whether a tf.distribute strategy has replicas in other processes, too."""
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    return len(strategy.cluster_resolver.cluster_spec().as_dict().get("worker", ())) > 1
