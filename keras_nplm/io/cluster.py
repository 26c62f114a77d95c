"""The workers of the environment variable `TF_CONFIG`."""

import json
import os

from keras_nplm.io.errors import InputError


def read_cluster() -> tuple[list[str], int]:
    """Return the addresses of all workers in the environment variable `TF_CONFIG`, and the number of this worker.

    Returns:
        `[]` and 0 if the variable is not set.

    Raises:
        InputError: `TF_CONFIG` does not describe a cluster of workers that includes this process.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return [], 0
    try:
        config = json.loads(text)
        cluster, task = config["cluster"], config["task"]
        workers, kind, index = cluster["worker"], task["type"], task["index"]
        jobs = set(cluster)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"TF_CONFIG must describe a cluster ({error!r:.200}). {_FIX}") from error
    _check_cluster(jobs == {"worker"}, "list workers only, no chief, ps or evaluator", sorted(jobs))
    _check_cluster(isinstance(workers, list) and len(workers) > 0, "list the addresses of the workers", workers)
    for worker in workers:
        _check_cluster(_is_address(worker), "give each worker as host:port, with a port of 1 to 65535", worker)
        _check_cluster(workers.count(worker) == 1, "list each address once", worker)
    _check_cluster(kind == "worker", "give this process the type worker", kind)
    is_index = type(index) is int and 0 <= index < len(workers)
    _check_cluster(is_index, f"give this process an integer index of 0 to {len(workers) - 1}", index)
    return list(workers), index


_FIX = 'Fix: write it like {"cluster": {"worker": ["one:2222", "two:2222"]}, "task": {"type": "worker", "index": 0}}.'


def _check_cluster(holds: bool, wanted: str, received: object) -> None:
    if not holds:
        raise InputError(f"TF_CONFIG must {wanted}. Received: {received!r:.200}. {_FIX}")


def _is_address(worker: object) -> bool:
    """Return whether a worker is `host:port` with a port that exists."""
    host, _, port = worker.rpartition(":") if isinstance(worker, str) else ("", "", "")
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 1 << 16
