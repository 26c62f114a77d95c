"""Where a training runs: one device, several of one machine, or several machines, and who of them writes."""

import functools
import os
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.models.replicas import has_several_workers, read_workers

STRATEGIES = ("auto", "one-device", "mirrored", "multi-worker")
_KERAS = (3, 15)  # the last whose `fit` was seen to work over several workers


def open_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """The strategy of tf.distribute of that name.

    Args:
        name: `"one-device"`: none; `"mirrored"`: all GPUs of this machine, or where it has none all logical CPUs;
            `"multi-worker"`: the workers that the environment variable `TF_CONFIG` names, each started by the same
            command; `"auto"`: of these multi-worker if there is a `TF_CONFIG` of several workers, mirrored if there are
            several GPUs, else one device.

    Raises:
        InputError: no such name, only one device to mirror, a `TF_CONFIG` that is absent or none, or TensorFlow has
            computed something already, which several workers do not allow.

    Example:

    >>> open_strategy("one-device").num_replicas_in_sync
    1
    """
    if name not in STRATEGIES:
        raise InputError(f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: {name!r}.")
    workers = read_workers() if name in ("auto", "multi-worker") else []
    if name == "multi-worker" or len(workers) > 1:
        return _workers_strategy(tuple(workers))
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one-device" or (name == "auto" and (len(devices) == 1 or devices[0].device_type == "CPU")):
        return tf.distribute.get_strategy()
    if len(devices) == 1:
        raise InputError(f"There is only one device to mirror, {devices[0].name}: leave --strategy out.")
    return _mirrored(tuple(device.name for device in devices))


@functools.cache  # the collectives of another strategy over the same devices would be taken for this one's
def _mirrored(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(devices)


@functools.cache
def _workers_strategy(workers: tuple[str, ...]) -> tf.distribute.Strategy:
    if not workers:
        raise InputError("--strategy multi-worker needs TF_CONFIG, which names all workers: see the README.")
    if tuple(map(int, keras.__version__.split(".")[:2])) > _KERAS:
        raise InputError(
            f"`fit` over several workers leans on parts of Keras that may change, and was tested up to Keras "
            f"{'.'.join(map(str, _KERAS))}. This is {keras.__version__}: take an earlier one, or one machine."
        )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise InputError(f"Open the strategy before TensorFlow has computed anything: {error}.") from error


def one_core() -> None:
    """Keep this process and its libraries to one core, before they start."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has started: affinity will do
        pass


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes the model directory: the only one, or worker 0."""
    return not has_several_workers(strategy) or strategy.cluster_resolver.task_id == 0


def sharded(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset, of which every worker is to take its share of each batch."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def from_chief(strategy: tf.distribute.Strategy, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The chief's arrays, bit for bit, at every worker.

    Every worker asks at the same point and with arrays of the same shapes and types: none returns before all have
    asked. With one worker there is nothing to do.

    Args:
        strategy: of the training.
        arrays: numbers of any type.

    Example:

    >>> from_chief(open_strategy("one-device"), [np.array([1, 2])])
    [array([1, 2])]
    """
    arrays = [np.asarray(array, order="C") for array in arrays]
    if not has_several_workers(strategy):
        return arrays
    packed = b"".join(array.tobytes() for array in arrays)
    sent = tf.constant(np.frombuffer(packed + bytes(-len(packed) % 4), np.int32))

    @tf.function
    def summed() -> tf.Tensor:
        def replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            first = tf.equal(context.replica_id_in_sync_group, 0)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(first, sent, tf.zeros_like(sent)))

        return strategy.experimental_local_results(strategy.run(replica))[0]

    received, taken = summed().numpy().tobytes(), []
    for array in arrays:
        taken.append(np.frombuffer(received[: array.nbytes], array.dtype).reshape(array.shape))
        received = received[array.nbytes :]
    return taken
