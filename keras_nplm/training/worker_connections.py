"""Read the workers of `TF_CONFIG`, wait for them before TensorFlow starts, and name the absent
ones.
"""

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Sequence

from keras_nplm.io.errors import InputError, RunError

SECONDS_PER_NOTE = 60.0  # between two lines of a worker that waits
FIRST_NOTE = 2.0  # workers that start together need no line
_PATIENCE = 1.0  # seconds for a connection
_RETRY = 0.25  # seconds between two rounds


def wait_for_workers(workers: Sequence[str], index: int, timeout: float) -> None:
    """Return when each worker has listened on its address: on a socket as this function opens it,
    or TensorFlow's.
    """
    absent = [worker for worker in workers if worker != workers[index]]
    began = time.monotonic()
    note_at = began + FIRST_NOTE
    with _listen(workers[index], index):
        while absent := [worker for worker in absent if not _is_listening(worker)]:
            named = ", ".join(f"worker {workers.index(worker)} ({worker})" for worker in absent)
            left = began + timeout - (now := time.monotonic())
            if left <= 0:
                raise RunError(
                    f"Absent after {timeout:g} s: {named}. Fix: start the same command there, "
                    "check that the machines can reach each other, or wait longer, as by --set "
                    "worker_timeout=900."
                )
            if now >= note_at:
                note_at = now + SECONDS_PER_NOTE
                print(
                    f"Worker {index} waits for {named}. It gives up in {left:.0f} s.",
                    file=sys.stderr,
                )
            time.sleep(_RETRY)


def _listen(address: str, index: int) -> socket.socket:
    """Listen on this worker's port.

    The system accepts connections; TensorFlow opens the port again later.
    """
    try:
        return socket.create_server(("", int(address.rpartition(":")[2])), backlog=1024)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RunError(
            f"Worker {index} cannot open its port ({address}): {reason}. "
            "Fix: end the process that uses the port, or change it in TF_CONFIG of all workers."
        ) from error


def _is_listening(worker: str) -> bool:
    host, _, port = worker.rpartition(":")
    with contextlib.suppress(OSError, UnicodeError):  # UnicodeError: a name that no host can have
        socket.create_connection((host, int(port)), _PATIENCE).close()
        return True
    return False


def read_cluster(is_required: bool = False) -> tuple[list[str], int]:
    """Return the addresses of all workers in `TF_CONFIG`, and the number of this one; [] and 0 if
    it is not set, and not required.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text and not is_required:
        return [], 0
    try:
        config = json.loads(text)
        cluster = config["cluster"]
        task = config["task"]
        workers = cluster["worker"]
        index = task["index"]
        hosts, _, ports = zip(*(worker.rpartition(":") for worker in workers), strict=True)
        is_cluster = (
            set(cluster) == {"worker"} and task["type"] == "worker" and isinstance(workers, list)
        )
        is_list = (
            all(hosts)
            and all(0 < int(port) < 1 << 16 for port in ports)
            and len({*workers}) == len(workers)
        )
        if not (is_cluster and is_list and type(index) is int and 0 <= index < len(workers)):
            raise ValueError
        return workers, index
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(
            "TF_CONFIG must list workers only, each once as host:port with a port of 1 to 65535, "
            "and give this process the type worker and an index in this list. "
            f"Received: {text!r:.200}. Fix: write it like "
            '{"cluster": {"worker": ["one:2222", "two:2222"]}, '
            '"task": {"type": "worker", "index": 0}}.'
        ) from error
