"""Local SGD: each worker takes K updates on its own replica, then the weights of all workers are averaged."""

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import check_argument
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.replicas import has_several_workers
from keras_nplm.training.worker_connections import read_cluster

_STRIDE = 0x9E3779B9  # 2**32 / golden ratio: spreads the seeds of the workers over 32 bits


class LocalUpdates(keras.callbacks.Callback):
    """Callback that averages the weights of all workers after every K updates and at the end of each epoch.

        theta <- 1/N sum_w theta_w

    In between a worker trains as a single process does, on its part of each batch. With K = 1 and plain SGD this is
    synchronous training, because the mean of the updates is the update by the mean gradient. Sums and moments of
    Adagrad and Adam are averaged as the weights are. Dropout and negative samples differ between workers. The figures
    of an epoch are means over all workers. This callback must come first in the list of callbacks.

    The model is built and compiled outside of the strategy's scope. `steps` are the updates of an epoch.

    Reference: Stich (2019), Local SGD converges fast and communicates little, ICLR.
    """

    def __init__(self, model: NPLM, devices: tf.distribute.Strategy, every: int, steps: int):
        super().__init__()
        self.set_model(model)
        check_local_updates(devices)
        self.every, self.steps, self.devices = every, steps, devices
        workers, self.index = read_cluster()
        self.number = len(workers)
        self.averaged = [*model.trainable_weights, *(part for part in model.optimizer.variables if len(part.shape))]
        self.average = tf.function(self._average_in_graph)  # all workers must call this after the same update

    def is_due(self, updates: int) -> bool:
        """Return whether the weights are averaged after so many updates since the start of training."""
        return updates % self.every == 0 or updates % self.steps == 0

    def _average_in_graph(self) -> None:
        means = self._reduce([tf.convert_to_tensor(variable.value) for variable in self.averaged], "MEAN")
        for variable, mean in zip(self.averaged, means, strict=True):
            variable.assign(mean)

    def _reduce(self, tensors: list[tf.Tensor], operation: str) -> list[tf.Tensor]:
        """Return the sum or the mean of tensors over all workers."""

        def reduce_in_replica() -> list[tf.Tensor]:
            here = list(map(tf.identity, tensors))  # on the device of the replica
            return tf.distribute.get_replica_context().all_reduce(operation, here)

        reduced = self.devices.run(reduce_in_replica)
        return [self.devices.experimental_local_results(tensor)[0] for tensor in reduced]

    def vary_random_states(self) -> None:
        """Give each worker its own dropout masks and negative samples: add to the seeds, which are the chief's."""
        for state in self.model.random_states():
            seed, count = state.numpy()
            state.assign(np.array([(int(seed) + self.index * _STRIDE) % (1 << 32), count], state.numpy().dtype))

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        """Replace the figures of this worker by the means of all workers, weighted by the number of n-grams."""
        absent = {"val_loss": 1.0, "val_perplexity": 1.0}  # of a worker without validation n-grams
        logs |= absent | logs
        validated = float(self.model.perplexity.count.numpy())  # of the validation, which came last
        names = sorted(logs)
        weights = np.array([validated if name.startswith("val_") else 1.0 for name in names])
        is_power = np.array([name.endswith("perplexity") for name in names])
        values = np.array([float(logs[name]) for name in names])
        values = np.log(values, out=values, where=is_power)
        sums, totals = self._sum(tf.constant(values * weights), tf.constant(weights))
        means = sums.numpy() / totals.numpy()
        logs.update(zip(names, np.exp(means, out=means, where=is_power).tolist(), strict=True))

    @tf.function
    def _sum(self, *tensors: tf.Tensor) -> list[tf.Tensor]:
        return self._reduce(list(tensors), "SUM")


def check_local_updates(devices: tf.distribute.Strategy) -> None:
    """Refuse local updates on a strategy without workers, or with several devices in a worker."""
    several, number = has_several_workers(devices), devices.num_replicas_in_sync
    fix = "set TF_CONFIG to start several workers, or leave `average_every` out."
    check_argument("average_every", several, "1 without several workers", f"{number} device(s)", fix)
    number //= len(read_cluster()[0])
    wanted, fix = "1 with several devices in a worker", "start one worker per device with its own CUDA_VISIBLE_DEVICES."
    check_argument("average_every", number == 1, wanted, f"{number} devices", fix)
