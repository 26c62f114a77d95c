"""TODO doc."""

import json
import os

import tensorflow as tf

from keras_nplm.io.errors import InputError


def has_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether replicas run in other processes, too."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy) and len(read_workers()) > 1


def read_workers() -> list[str]:
    """The addresses of all workers in `TF_CONFIG`; none where there is no such variable.

    Raises:
        InputError: it does not describe a cluster with this process in it.
    """
    described = os.environ.get("TF_CONFIG", "")
    if not described:
        return []
    example = '{"cluster": {"worker": ["host0:12345", "host1:12345"]}, "task": {"type": "worker", "index": 0}}'
    try:
        config = json.loads(described)
        workers, task = config["cluster"]["worker"], config["task"]
        whole = all(isinstance(worker, str) and ":" in worker for worker in workers) and task["type"] == "worker"
        whole = whole and set(config["cluster"]) == {"worker"} and 0 <= int(task["index"]) < len(workers)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"TF_CONFIG does not describe a cluster ({error!r}): it looks like {example}.") from error
    if not whole:
        raise InputError(f"TF_CONFIG must have workers alone, and this process among them: it looks like {example}.")
    return list(workers)
