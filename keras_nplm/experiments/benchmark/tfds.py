"""Benchmark `tfds`: speed and peak memory of `prepare` on a TFDS set, by one process and by one process for each core.

The text is that of the benchmark `estimation`. It is stored as a TFDS set with ten sentences in an example. Sets from
256 MB on, about 50 million tokens, are counted and encoded by as many processes as there are cores. The CPU seconds and
the memory are those of all processes together.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.commands import TimedCommand, call_package, measure_commands

_NAME, _VERSION = "sampled_text", "1.0.0"
_SENTENCES = 10  # in an example
_SETS = "sets"  # directory of the stored set, beside the text
_START = (  # on cores, with TFDS's directory: the benchmark itself is restricted to one core
    "import os, sys; os.sched_setaffinity(0, range(int(sys.argv[1]))); os.environ['TFDS_DATA_DIR'] = sys.argv[2]; "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def measure(corpus: Corpus, rounds: int, tokens: Sequence[int]) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    numbers = sorted({1, os.cpu_count() or 1})
    names = {cores: f"prepare --corpus tfds, {cores} core{'s' if cores > 1 else ''}" for cores in numbers}
    commands = [TimedCommand(names[cores], _build_prepare(cores)) for cores in numbers]
    return measure_commands(commands, corpus, rounds, tokens, _store_set)


def _build_prepare(cores: int) -> Callable[[Path, Path], list[str]]:
    def build(texts: Path, results: Path) -> list[str]:
        words = call_package("prepare", f"--output={results / 'corpus'}", f"--corpus=tfds:{_NAME}")
        return [sys.executable, "-c", _START, str(cores), str(texts / _SETS), *words, "--tokenizer=whitespace"]

    return build


def _store_set(texts: Path) -> None:
    """Store the splits of a text as a TFDS set, in its directory `sets`."""
    import tensorflow as tf
    import tensorflow_datasets as datasets

    def read_examples(split: str) -> tf.data.Dataset:
        lines = tf.data.TextLineDataset(str(texts / f"{split}.txt")).batch(_SENTENCES)
        return lines.map(lambda batch: {"text": tf.strings.reduce_join(batch, separator="\n")})

    with contextlib.redirect_stdout(sys.stderr):
        datasets.dataset_builders.store_as_tfds_dataset(
            name=_NAME,
            version=_VERSION,
            features=datasets.features.FeaturesDict({"text": datasets.features.Text()}),
            split_datasets={split: read_examples(split) for split in ("train", "validation", "test")},
            data_dir=texts / _SETS,
            disable_shuffling=True,
        )
