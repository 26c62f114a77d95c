"""tf.distribute strategies for several GPUs or machines, lost workers, and values that all workers
share.
"""

import contextlib
import dataclasses
import functools
import pickle
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from keras_nplm.data.epochs import Epochs
from keras_nplm.io.errors import RunError, check_argument, check_choice
from keras_nplm.models.networks.replicas import has_several_workers
from keras_nplm.training.options import RunOptions
from keras_nplm.training.worker_connections import read_cluster, wait_for_workers

STRATEGIES = ("auto", "one-device", "mirrored", "multi-worker")


def open_strategy(
    name: str = "auto", *, worker_timeout: int = RunOptions.worker_timeout
) -> tf.distribute.Strategy:
    """Return the tf.distribute strategy of a name: one device, several GPUs, or several workers
    (multi-machine).

    Several workers wait for each other, and print for whom. See
    `keras_nplm.training.worker_connections`.

    Args:
        name: `"one-device"`; `"mirrored"`: a replica per GPU of this machine, or per logical CPU
            without a GPU; `"multi-worker"`: the workers that `TF_CONFIG` lists, each with the same
            command; `"auto"`: multi-worker with several workers in `TF_CONFIG`, else mirrored with
            several GPUs, else one device.
        worker_timeout: seconds to wait for absent workers.

    Raises:
        InputError: the name is unknown; there is a single device to mirror; or `TF_CONFIG` is
            absent or invalid.
        RunError: a worker did not come in time or was lost, or the port of this worker is in use.
        RuntimeError: TensorFlow has run an operation before the workers were connected.

    Example:

    >>> open_strategy("one-device").num_replicas_in_sync
    1
    """
    check_choice("strategy", name, STRATEGIES)
    if name in ("auto", "multi-worker"):
        workers, index = read_cluster(is_required=name == "multi-worker")
        if name == "multi-worker" or len(workers) > 1:
            return _open_multi_worker(tuple(workers), index, worker_timeout)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if name == "one-device" or (
        name == "auto" and (len(devices) == 1 or devices[0].device_type == "CPU")
    ):
        return tf.distribute.get_strategy()
    accepted = f"one-device with a single device, {devices[0].name}"
    check_argument("strategy", len(devices) > 1, accepted, name, "remove --strategy.")
    return _open_mirrored(tuple(device.name for device in devices))


@functools.cache  # a second strategy over the same devices would use the collectives of the first
def _open_mirrored(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(devices)


@functools.cache  # TensorFlow connects the workers once
def _open_multi_worker(
    workers: tuple[str, ...], index: int, timeout: int
) -> tf.distribute.Strategy:
    try:
        wait_for_workers(workers, index, timeout)
        return tf.distribute.MultiWorkerMirroredStrategy()
    except (OSError, tf.errors.OpError) as error:
        raise RunError(
            f"Worker {index} could not connect as {workers[index]}: {_first_line(str(error))}. "
            "Fix: check that no other process uses its port, and start all workers again."
        ) from error
    finally:  # TensorFlow takes SIGTERM from Python
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)


@contextlib.contextmanager
def fail_if_worker_is_lost(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turn the loss of a worker, noticed after 10 to 20 seconds, or a failure of TensorFlow into a
    RunError.
    """
    try:
        yield
    except tf.errors.OpError as error:
        failed, where = "TensorFlow failed", ""
        if has_several_workers(strategy):
            failed, where = "A worker was lost or failed", " on all workers"
        raise RunError(
            f"{failed} ({_first_line(error.message)}). The last checkpoint is kept. "
            f"Fix: run the same command again{where} to resume."
        ) from error


def _first_line(message: str) -> str:
    """The first line of a TensorFlow error message that says the cause."""
    for line in re.sub(r"{{.*?}} ", "", message).splitlines():
        if re.match("(?!Graph execution|Detected at node|<stack)\\S", line):
            return line[:200]
    return "no reason given"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the model directory: the only process, or worker 0."""
    return strategy.extended.should_checkpoint


def shard_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the dataset with the auto-shard policy DATA: each worker takes its share of each
    batch.
    """
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def distribute_parts(
    strategy: tf.distribute.Strategy,
    open_batches: Callable[[Epochs], tf.data.Dataset],
    epochs: Epochs,
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Return a dataset for `fit` in which each worker reads its own part of the batches."""
    if not has_several_workers(strategy):
        return shard_batches(open_batches(epochs))

    def build_part(context: tf.distribute.InputContext) -> tf.data.Dataset:
        workers = context.num_input_pipelines
        part = (context.input_pipeline_id, workers)
        dataset = open_batches(dataclasses.replace(epochs, part=part))
        replicas = context.num_replicas_in_sync // workers
        if replicas == 1:
            return dataset
        size = dataset.element_spec[1].shape[0]  # each replica of the worker takes the next batch
        return dataset.rebatch(size // replicas, drop_remainder=True)

    return strategy.distribute_datasets_from_function(build_part)


def is_any(strategy: tf.distribute.Strategy, holds: bool) -> bool:
    """Return whether a condition holds at any worker, when all workers have called this."""
    if not has_several_workers(strategy):
        return holds
    values = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(float(holds))
    )
    return bool(strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None))


def broadcast_from_chief(strategy: tf.distribute.Strategy, value: Any) -> Any:
    """Return the chief's value at every worker, bit for bit, when all workers have called this.

    tf.distribute gives a new variable the value of the chief at all workers.
    """
    if not has_several_workers(strategy):
        return value
    packed = pickle.dumps(value)
    with strategy.scope():
        size = int(tf.Variable(len(packed), dtype=tf.int64).numpy())
        # TensorFlow broadcasts no bytes; `pickle` ignores those after its end
        words = np.frombuffer(packed[:size].ljust(-(-size // 8) * 8), np.int64)
        return pickle.loads(tf.Variable(words).numpy().tobytes())
