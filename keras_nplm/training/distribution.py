"""tf.distribute strategies for several GPUs or machines, the start of several workers, helpers for
the chief worker.
"""

import contextlib
import dataclasses
import functools
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from keras_nplm.data.epochs import Epochs
from keras_nplm.io.errors import InputError, RunError, check_argument, check_choice
from keras_nplm.models.networks.replicas import has_several_workers
from keras_nplm.training.options import RunOptions
from keras_nplm.training.worker_connections import read_cluster, wait_for_workers

STRATEGIES = ("auto", "one-device", "mirrored", "multi-worker")
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


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
        InputError: the name is unknown; there is a single device to mirror; `TF_CONFIG` is absent
            or invalid; or TensorFlow has run an operation before the workers were connected.
        RunError: a worker did not come in time or was lost, or the port of this worker is in use.

    Example:

    >>> open_strategy("one-device").num_replicas_in_sync
    1
    """
    check_choice("strategy", name, STRATEGIES)
    can_be_several = name in ("auto", "multi-worker")
    workers, index = read_cluster(name == "multi-worker") if can_be_several else ([], 0)
    if name == "multi-worker" or len(workers) > 1:
        return _open_multi_worker(workers, index, worker_timeout)
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


_OPENED: dict[tuple, tf.distribute.Strategy] = {}  # by the addresses of the workers


def _open_multi_worker(workers: Sequence[str], index: int, timeout: int) -> tf.distribute.Strategy:
    if tuple(workers) not in _OPENED:
        if context.context()._initialized:
            raise InputError(
                "`strategy` multi-worker must be opened before TensorFlow runs an operation. "
                "Fix: call open_strategy first."
            )
        wait_for_workers(workers, index, timeout)
        try:
            _OPENED[tuple(workers)] = tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            reason = _first_line(error.message)
            raise RunError(
                f"TensorFlow could not connect worker {index} ({workers[index]}): {reason}. Fix: "
                "check that no other process uses its port, and start all workers again."
            ) from error
        finally:  # TensorFlow takes SIGTERM from Python
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL)
    return _OPENED[tuple(workers)]


@contextlib.contextmanager
def fail_if_worker_is_lost(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Turn the loss of a worker, noticed after 10 to 20 seconds, or a failure of TensorFlow into a
    RunError.
    """
    try:
        yield
    except tf.errors.OpError as error:
        several = has_several_workers(strategy)
        is_loss = several and isinstance(error, _LOSSES)
        place = r"Error reported from /job:worker\S*/task:(\d+)"
        lost = re.search(place, error.message) if is_loss else None
        reason = _first_line(error.message)
        if lost is not None:
            reason = f"worker {lost[1]}, {read_cluster()[0][int(lost[1])]}"
        raise RunError(
            f"{'A worker was lost' if is_loss else 'TensorFlow failed'} ({reason}). The last "
            "checkpoint is kept. Fix: run the same command again"
            f"{' on all workers' if several else ''} to resume."
        ) from error


def _first_line(message: str) -> str:
    """The first line of a TensorFlow error message that says the cause."""
    lines = [
        line
        for line in message.splitlines()
        if re.match("(?!Graph execution|Detected at node|<stack)\\S", line)
    ]
    return lines[0][:200] if lines else "no reason given"


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the model directory: the only process, or worker 0."""
    return not has_several_workers(strategy) or strategy.cluster_resolver.task_id == 0


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
    return bool(_build_sum(strategy)(tf.constant(int(holds))))


@functools.cache
def _build_sum(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the function that sums a number over all replicas."""

    def send(number: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        # an argument of the function has no device, which collectives need
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(number))

    @tf.function(autograph=False)
    def sum_over_replicas(number: tf.Tensor) -> tf.Tensor:
        return strategy.experimental_local_results(strategy.run(send, (number,)))[0]

    return sum_over_replicas


def broadcast_from_chief(
    strategy: tf.distribute.Strategy, arrays: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Return the chief's arrays, bit for bit, at every worker, when all have called this with the
    same shapes.
    """
    arrays = [np.asarray(array, order="C") for array in arrays]
    if not has_several_workers(strategy):
        return arrays
    packed = b"".join(array.tobytes() for array in arrays)
    sent = tf.constant(np.frombuffer(packed + bytes(-len(packed) % 4), np.int32))

    @tf.function(autograph=False)
    def sum_over_replicas() -> tf.Tensor:
        def send_from_first() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            is_first = tf.equal(context.replica_id_in_sync_group, 0)
            return context.all_reduce(
                tf.distribute.ReduceOp.SUM, tf.where(is_first, sent, tf.zeros_like(sent))
            )

        return strategy.experimental_local_results(strategy.run(send_from_first))[0]

    received = sum_over_replicas().numpy().tobytes()
    unpacked = []
    for array in arrays:
        unpacked.append(np.frombuffer(received[: array.nbytes], array.dtype).reshape(array.shape))
        received = received[array.nbytes :]
    return unpacked
