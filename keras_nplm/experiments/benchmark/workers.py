"""Benchmark `workers`: n-grams per second of two workers on one core each, beside one worker on one core.

Workers are processes on one machine that train one network with tf.distribute. Rates are per second of the clock, so
that waiting for the other worker counts.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.experiments.benchmark.children import end_with_parent, start_child
from keras_nplm.experiments.benchmark.contenders import summarise_rates, summarise_ratios
from keras_nplm.experiments.benchmark.networks import Shape, sample_zipf_ids
from keras_nplm.io.errors import RunError
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.distribution import open_strategy, shard_batches
from keras_nplm.training.optimizers import LazySGD

BATCH_SIZES = {"full": 4096, "nce": 4096}  # n-grams in a batch of all workers together, by output layer
_UPDATES = {"full": 12, "nce": 100}
_WARM_UP = 3  # updates before the measured ones


def measure(corpus: Corpus, rounds: int, tokens: int) -> list[dict]:
    """Return the rows of the benchmark; rates are per second of the clock, with the time that workers wait.

    Args:
        corpus: not used; the text is random.
        rounds: number of measured rounds, in which one worker and two workers take turns.
        tokens: not used.

    Raises:
        RunError: a worker failed.
    """
    rows = []
    for output, batch_size in BATCH_SIZES.items():
        rates = {1: [], 2: []}
        for number in range(1, rounds + 1):
            for workers in rates:
                rates[workers].append(measure_rate(workers, output))
            print(f"{output}: round {number} of {rounds}", file=sys.stderr)
        one = f"{output}, 1 worker, 1 core"
        twice = [2 * rate for rate in rates[1]]
        row = summarise_rates(f"{output}, 2 workers, 2 cores, batches of {batch_size}", rates[2])
        rows.append(row | {"ratio_to": {f"twice {one}": summarise_ratios(rates[2], twice)}})
        rows.append(summarise_rates(one, rates[1]))
    return rows


def measure_rate(workers: int, output: str) -> float:
    """Return the n-grams per second of all workers together.

    Each worker is a process, `python -m MODULE CORE OUTPUT PARENT`.

    Args:
        workers: number of workers.
        output: name of the output layer.

    Raises:
        RunError: a worker failed.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(workers)]
        for free in sockets:
            free.bind(("localhost", 0))
        addresses = [f"localhost:{free.getsockname()[1]}" for free in sockets]
    with contextlib.ExitStack() as stack:
        processes = []
        for index in range(workers):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            command = [sys.executable, "-m", __name__, str(index), output, str(os.getpid())]
            environment = os.environ | {"TF_CONFIG": json.dumps(task)}
            pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            child = start_child(command, env=environment, encoding="utf-8", **pipes)
            processes.append(stack.enter_context(child))
        outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        statuses = [process.returncode for process in processes]
        raise RunError(f"A worker of the benchmark failed. Exit statuses of the workers: {statuses}.")
    return float(outputs[0].split()[-1])


def main(core: str, output: str, parent: str) -> None:
    """Train as one worker, on one core, and print the n-grams per second of all workers together."""
    end_with_parent(int(parent))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) % (os.cpu_count() or 1)})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy, batch_size, updates = open_strategy("auto"), BATCH_SIZES[output], _UPDATES[output]
    keras.utils.set_random_seed(1)
    shape = Shape()
    ids = sample_zipf_ids(shape.vocabulary_size, batch_size * 30)
    with strategy.scope():
        sizes = shape.vocabulary_size, shape.order, shape.embedding_dim, shape.hidden_units
        model = NPLM(*sizes, output=output)
        model.prob.set_unigram(np.bincount(ids, minlength=shape.vocabulary_size))
        model.compile(optimizer=LazySGD(0.1))
    dataset = shard_batches(
        ngram_dataset(ids, shape.order, batch_size, boundary="stream", drop_remainder=True, first_epoch=0)
    )
    model.fit(dataset, steps_per_epoch=_WARM_UP, shuffle=False, verbose=0)
    began = time.perf_counter()
    model.fit(dataset, steps_per_epoch=updates, shuffle=False, verbose=0)
    print(updates * batch_size / (time.perf_counter() - began))


if __name__ == "__main__":
    main(*sys.argv[1:])
