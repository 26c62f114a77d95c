"""Read the workers of `TF_CONFIG`, and wait for them before TensorFlow starts."""

import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence

import tensorflow as tf

from keras_nplm.io.errors import InputError, RunError

_PATIENCE = 1.0  # seconds for a connection
_RETRY = 0.25  # seconds between two rounds


def wait_for_workers(workers: Sequence[str], index: int, timeout: float) -> None:
    """Return when each worker has listened on its address: on a socket as this function opens it,
    or TensorFlow's.

    TensorFlow itself waits for an absent worker without end or message.

    Raises:
        RunError: a worker is absent after `timeout` seconds.
        OSError: this worker cannot open its port.
    """
    began = time.monotonic()
    absent = [worker for worker in workers if worker != workers[index]]
    is_noted = False
    # the system accepts connections; TensorFlow opens the port again later
    with socket.create_server(("", _split(workers[index])[1]), backlog=1024):
        while absent := [worker for worker in absent if not _is_listening(worker)]:
            named = ", ".join(f"worker {workers.index(worker)} ({worker})" for worker in absent)
            if time.monotonic() - began > timeout:
                raise RunError(
                    f"Absent after {timeout:g} s: {named}. Fix: start the same command there, "
                    "check that the machines can reach each other, or wait longer, as by --set "
                    "worker_timeout=900."
                )
            if not is_noted:
                note = f"Worker {index} waits for {named}, at most {timeout:g} s."
                print(note, file=sys.stderr)
                is_noted = True
            time.sleep(_RETRY)


def _is_listening(worker: str) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(_split(worker), _PATIENCE).close()
        return True
    return False


def _split(worker: str) -> tuple[str, int]:
    host, _, port = worker.rpartition(":")
    return host, int(port)


def read_cluster(is_required: bool = False) -> tuple[list[str], int]:
    """Return the addresses of all workers in `TF_CONFIG`, and the number of this one; [] and 0 if
    it is not set, and not required.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text and not is_required:
        return [], 0
    try:
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        ((job, workers),) = resolver.cluster_spec().as_dict().items()
        index = resolver.task_id
        ports = [_split(worker)[1] for worker in workers]
        is_worker = {job, resolver.task_type} == {"worker"} and index in range(len(workers))
        if not is_worker or not all(0 < port < 1 << 16 for port in ports):
            raise ValueError
        return workers, index
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            "TF_CONFIG must list workers only, as host:port, and the index of this one. "
            f"Received: {text!r:.200}. Fix: write it like "
            '{"cluster": {"worker": ["one:2222", "two:2222"]}, '
            '"task": {"type": "worker", "index": 0}}.'
        ) from error
