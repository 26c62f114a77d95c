"""tf.distribute strategies for several GPUs or machines, and helpers for the chief worker."""

import functools
import os
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.models.replicas import has_several_workers, read_workers

STRATEGIES = ("auto", "one-device", "mirrored", "multi-worker")
_LAST_TESTED_KERAS = (3, 15)  # `fit` over several workers relies on internals of Keras


def open_strategy(name: str = "auto") -> tf.distribute.Strategy:
    """Return the tf.distribute strategy of a name: one device, several GPUs, or several workers (multi-machine).

    Args:
        name: `"one-device"`: no distribution.
            `"mirrored"`: one replica per GPU of this machine, or per logical CPU if it has no GPU.
            `"multi-worker"`: the workers that the environment variable `TF_CONFIG` lists. Start the same command on
            each.
            `"auto"`: multi-worker if `TF_CONFIG` lists several workers, else mirrored if there are several GPUs, else
            one device.

    Raises:
        InputError: the name is unknown; there is a single device to mirror; `TF_CONFIG` is absent or invalid; or
            TensorFlow has already run an operation, before the workers of a multi-worker strategy were connected.

    Example:

    >>> open_strategy("one-device").num_replicas_in_sync
    1
    """
    if name not in STRATEGIES:
        raise InputError(f"`strategy` must be one of {', '.join(STRATEGIES)}. Received: {name!r}.")
    workers = read_workers() if name in ("auto", "multi-worker") else []
    if name == "multi-worker" or len(workers) > 1:
        return _open_multi_worker(tuple(workers))
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one-device" or (name == "auto" and (len(devices) == 1 or devices[0].device_type == "CPU")):
        return tf.distribute.get_strategy()
    if len(devices) == 1:
        raise InputError(
            f"`strategy` mirrored needs two devices or more. Received: {devices[0].name} alone. Fix: remove --strategy."
        )
    return _open_mirrored(tuple(device.name for device in devices))


@functools.cache  # a second strategy over the same devices would use the collectives of the first
def _open_mirrored(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(devices)


@functools.cache
def _open_multi_worker(workers: tuple[str, ...]) -> tf.distribute.Strategy:
    if not workers:
        example = '{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": {"type": "worker", "index": 0}}'
        raise InputError(f"`strategy` multi-worker needs the environment variable TF_CONFIG. Fix: set it to {example}.")
    if tuple(map(int, keras.__version__.split(".")[:2])) > _LAST_TESTED_KERAS:
        last = ".".join(map(str, _LAST_TESTED_KERAS))
        raise InputError(
            f"Training with several workers needs Keras {last} or earlier, the last tested version. Received: "
            f"{keras.__version__}. Fix: install Keras {last}, or train on one machine."
        )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise InputError(
            f"`strategy` multi-worker must be opened before TensorFlow runs an operation ({error}). Fix: call "
            "open_strategy first."
        ) from error


def use_one_core() -> None:
    """Restrict this process and TensorFlow to one CPU core, for timings. Call it before TensorFlow starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    except RuntimeError:  # TensorFlow has started; the affinity still holds
        pass


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the model directory: the only process, or worker 0."""
    return not has_several_workers(strategy) or strategy.cluster_resolver.task_id == 0


def shard_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset with the auto-shard policy DATA: each worker takes its share of each batch."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def broadcast_from_chief(strategy: tf.distribute.Strategy, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the chief's arrays, bit for bit, at every worker.

    All workers must call this at the same point with arrays of the same shapes and dtypes. The call returns when all
    workers have made it. With one worker the arrays are returned as they are.

    Args:
        strategy: the strategy of the training.
        arrays: arrays of any dtype.

    Example:

    >>> broadcast_from_chief(open_strategy("one-device"), [np.array([1, 2])])
    [array([1, 2])]
    """
    arrays = [np.asarray(array, order="C") for array in arrays]
    if not has_several_workers(strategy):
        return arrays
    packed = b"".join(array.tobytes() for array in arrays)
    sent = tf.constant(np.frombuffer(packed + bytes(-len(packed) % 4), np.int32))

    @tf.function
    def sum_over_replicas() -> tf.Tensor:
        def send_from_first() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(context.replica_id_in_sync_group, 0)
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.where(is_first, sent, tf.zeros_like(sent)))

        return strategy.experimental_local_results(strategy.run(send_from_first))[0]

    received, unpacked = sum_over_replicas().numpy().tobytes(), []
    for array in arrays:
        unpacked.append(np.frombuffer(received[: array.nbytes], array.dtype).reshape(array.shape))
        received = received[array.nbytes :]
    return unpacked
