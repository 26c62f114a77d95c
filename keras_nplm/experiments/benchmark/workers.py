"""Benchmark `workers`: n-grams per second of two workers on one core each, next to one worker on one core.

Workers are processes on one machine that train one network on the text of `--corpus`, with the same batches and
options. Two workers send gradients after each update, or average their weights after every K updates
(`--average-every`). With short updates K is changed by 1/16 at most, and training prints the K that it takes. Rates are
per second of the clock, so that waiting for the other worker counts. The validation perplexity is that after the last
epoch. The CPU seconds are those of all workers, for all epochs.
"""

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import keras
import tensorflow as tf

from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.experiments.benchmark import AVERAGE_EVERY
from keras_nplm.experiments.benchmark.children import end_with_parent, start_child
from keras_nplm.experiments.benchmark.contenders import summarise_rates, summarise_ratios
from keras_nplm.io.errors import RunError
from keras_nplm.language_model.directory import load_vocabulary
from keras_nplm.training.checkpoint import read_history
from keras_nplm.training.configuration import Configuration
from keras_nplm.training.distribution import is_chief, open_strategy
from keras_nplm.training.fit import TrainingTargets, fit_network

BATCH_SIZE = 512  # n-grams in a batch of all workers together
EPOCHS = {"full": 1, "nce": 3, "sampled": 3, "adaptive": 1}  # by output layer; the first of several is a warm-up
_NETWORK = dict(
    order=5,
    averages_after="",
    activation="tanh",
    residual_blocks=0,
    layer_norm=False,
    dropout=0.0,
    embedding_dropout=0.0,
    boundary="stream",
    learning_rate=3.0,
    batch_size=BATCH_SIZE,
)


def measure(corpus: Corpus, rounds: int, average_every: Sequence[int] = AVERAGE_EVERY) -> list[dict]:
    """Return a row for one worker and for two workers with each K, by output layer.

    Args:
        corpus: the text.
        rounds: number of measured rounds, in which the contenders of an output layer take turns.
        average_every: the values of K for two workers. 1: synchronous updates.

    Raises:
        RunError: a worker failed.
    """
    rows = []
    with tempfile.TemporaryDirectory() as name:
        vocabulary = count_vocabulary(corpus, SPLITS, min_count=4)
        vocabulary.save(Path(name) / "vocabulary.txt")
        encode_corpus(corpus, vocabulary, Path(name) / "corpus")
        for output in EPOCHS:
            runs = {(1, 1): [], **{(2, every): [] for every in average_every}}
            for number in range(1, rounds + 1):
                for workers, every in runs:
                    runs[workers, every].append(train_workers(Path(name), output, workers, every))
                print(f"{output}: round {number} of {rounds}", file=sys.stderr)
            rows += _build_rows(output, runs)
    return rows


def _build_rows(output: str, runs: dict[tuple[int, int], list[dict]]) -> list[dict]:
    """Return the rows of an output layer: medians over the rounds, and ratios to the rate of one worker."""
    rates = {key: [run["rate"] for run in measured] for key, measured in runs.items()}
    rows = []
    for (workers, every), measured in runs.items():
        how = "1 worker" if workers == 1 else f"{workers} workers, " + ("synchronous" if every == 1 else f"K={every}")
        row = summarise_rates(f"{output}, {how}", rates[workers, every])
        row |= {
            name: statistics.median(run[name] for run in measured) for name in ("cpu_seconds", "validation_perplexity")
        }
        if workers > 1:
            row["ratio_to"] = {"1 worker": summarise_ratios(rates[workers, every], rates[1, 1])}
        rows.append(row)
    return rows


def train_workers(directory: Path, output: str, workers: int, every: int) -> dict[str, float]:
    """Train a network with all workers.

    Each worker is a process, `python -m MODULE CORE DIRECTORY OUTPUT K PARENT`.

    Args:
        directory: holds the vocabulary and the encoded corpus.
        output: name of the output layer.
        workers: number of workers.
        every: K.

    Returns:
        `rate` of all workers together, n-grams per second of the clock; `validation_perplexity`; `cpu_seconds`, the sum
        over the workers.

    Raises:
        RunError: a worker failed.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(workers)]
        for free in sockets:
            free.bind(("localhost", 0))
        addresses = [f"localhost:{free.getsockname()[1]}" for free in sockets]
    with contextlib.ExitStack() as stack:
        processes, errors = [], []
        for index in range(workers):
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            arguments = [index, directory, output, every, os.getpid()]
            command = [sys.executable, "-m", __name__, *map(str, arguments)]
            environment = os.environ | {"TF_CONFIG": json.dumps(task)}
            errors.append(stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")))
            pipes = dict(stdout=subprocess.PIPE, stderr=errors[-1])
            child = start_child(command, env=environment, encoding="utf-8", **pipes)
            processes.append(stack.enter_context(child))
        outputs = [process.communicate()[0] for process in processes]
        for process, error in zip(processes, errors, strict=True):
            if process.returncode:
                error.seek(0)
                last = (error.read().strip().splitlines() or [f"exit status {process.returncode}"])[-1]
                raise RunError(f"A worker of the benchmark failed: {last}")
    results = [json.loads(text.splitlines()[-1]) for text in outputs]
    return results[0] | {"cpu_seconds": sum(result["cpu_seconds"] for result in results)}


def main(core: str, directory: str, output: str, every: str, parent: str) -> None:
    """Train as one worker, on one core, and print its CPU seconds, and as the chief also rate and perplexity."""
    end_with_parent(int(parent))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) % (os.cpu_count() or 1)})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = open_strategy("auto")
    keras.utils.set_random_seed(1)
    configuration = Configuration(
        output_layer=output, epochs=EPOCHS[output], average_every=int(every), weight_decay=0.0, **_NETWORK
    )
    encoded = EncodedCorpus.load(Path(directory) / "corpus")
    vocabulary = load_vocabulary(Path(directory), encoded.tokenizer)
    targets = TrainingTargets.of(configuration, encoded)
    with tempfile.TemporaryDirectory() as run:
        began = time.process_time()
        fit_network(configuration, encoded, targets, vocabulary, Path(run), strategy)
        result = {"cpu_seconds": time.process_time() - began}
        if is_chief(strategy):
            history = read_history(Path(run) / "history.json")
            rates = [epoch["ngrams_per_second"] for epoch in history[1:] or history]
            perplexity = history[-1]["validation_perplexity"]
            result |= {"rate": statistics.median(rates), "validation_perplexity": perplexity}
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
