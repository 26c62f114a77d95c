"""What a second worker brings: n-grams a second of two workers on a core each, beside one worker on one core.

Each worker is a process of its own (`python -m keras_nplm.experiments.benchmark.workers CORE OUTPUT`), of the same
options.
"""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.io.errors import RunError
from keras_nplm.models.nplm import NPLM
from keras_nplm.training.distribution import open_strategy, shard_batches
from keras_nplm.training.optimizers import LazySGD

OUTPUTS = {"full": 4096, "nce": 4096}  # n-grams in a batch, of all workers together
_SIZE, _ORDER, _EMBEDDING_DIM, _HIDDEN_UNITS = 17_905, 5, 60, 100
_UPDATES = {"full": 12, "nce": 100}


def zipf_ids(vocabulary_size: int, length: int) -> np.ndarray:
    """Ids whose frequencies fall as 1/rank, the most frequent first, as in text."""
    probability = 1 / np.arange(1, vocabulary_size - 3)
    random = np.random.default_rng(0)
    return random.choice(np.arange(4, vocabulary_size), length, p=probability / probability.sum()).astype(np.int32)


def worker_rows(rounds: int) -> list[dict]:
    """Rows as `benchmark.run` has them: rates by the clock, waiting for the other worker included.

    Args:
        rounds: how often each is measured, in turns.

    Raises:
        RunError: a worker failed.
    """
    rows = []
    for output, batch_size in OUTPUTS.items():
        rates = {number: [] for number in (1, 2)}
        for done in range(rounds):
            for number, measured in rates.items():
                measured.append(_rate(number, output))
            print(f"{output}: round {done + 1} of {rounds}", file=sys.stderr)
        one = f"{output}, 1 worker, 1 core"
        ratios = [two / (2 * alone) for alone, two in zip(rates[1], rates[2], strict=True)]
        row = _row(f"{output}, 2 workers, 2 cores, batches of {batch_size}", rates[2])
        rows.append(row | {"ratio_to": {f"twice {one}": [statistics.median(ratios), min(ratios), max(ratios)]}})
        rows.append(_row(one, rates[1]))
    return rows


def _row(name: str, rates: list[float]) -> dict:
    middle = statistics.median(rates)
    return {"name": name, "unit": "n-grams/s", "rate": middle, "low": min(rates), "high": max(rates)}


def _rate(workers: int, output: str) -> float:
    """N-grams a second of so many workers together."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(workers)]
        for one in found:
            one.bind(("localhost", 0))
        addresses = [f"localhost:{one.getsockname()[1]}" for one in found]
    started = []
    for index in range(workers):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        command = [sys.executable, "-m", "keras_nplm.experiments.benchmark.workers", str(index), output]
        environment = os.environ | {"TF_CONFIG": json.dumps(task)}
        started.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
            )
        )
    answers = [worker.communicate()[0] for worker in started]
    if any(worker.returncode for worker in started):
        raise RunError(f"A worker of the benchmark failed (exit status {[w.returncode for w in started]}).")
    return float(answers[0].split()[-1])


def main(core: str, output: str) -> None:
    """Train as one worker, on one core, and print the n-grams a second of all workers."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) % (os.cpu_count() or 1)})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy, batch_size, updates = open_strategy("auto"), OUTPUTS[output], _UPDATES[output]
    keras.utils.set_random_seed(1)
    ids = zipf_ids(_SIZE, batch_size * 30)
    with strategy.scope():
        model = NPLM(_SIZE, _ORDER, _EMBEDDING_DIM, _HIDDEN_UNITS, output=output)
        model.prob.set_unigram(np.bincount(ids, minlength=_SIZE))
        model.compile(optimizer=LazySGD(0.1))
    dataset = shard_batches(
        ngram_dataset(ids, _ORDER, batch_size, boundary="stream", drop_remainder=True, first_epoch=0)
    )
    model.fit(dataset, steps_per_epoch=3, shuffle=False, verbose=0)
    began = time.perf_counter()
    model.fit(dataset, steps_per_epoch=updates, shuffle=False, verbose=0)
    print(updates * batch_size / (time.perf_counter() - began))


if __name__ == "__main__":
    main(*sys.argv[1:])
