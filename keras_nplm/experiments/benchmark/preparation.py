"""Benchmark `preparation`: speed and peak memory of counting and encoding a text by `prepare`, by the size of the text.

The text is that of the benchmark `estimation`. The command `prepare` counts the vocabulary of text files and writes
shards of word ids, on this machine or by Apache Beam. The peer is Beam's DirectRunner with one worker: it measures what
Beam adds to the same functions. Each runs in a process of its own on one core.
"""

from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.commands import TimedCommand, call_package, measure_commands, name_texts
from keras_nplm.experiments.benchmark.peers import is_installed

_RUNNER = "DirectRunner"


def measure(corpus: Corpus, rounds: int, tokens: Sequence[int]) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    has_beam = is_installed("apache_beam")
    commands = [
        TimedCommand("prepare", _build_local),
        TimedCommand(f"prepare --runner {_RUNNER}", _build_beam, peer=True, installed=has_beam),
    ]
    return measure_commands(commands, corpus, rounds, tokens)


def _build_local(texts: Path, results: Path) -> list[str]:
    return call_package("prepare", f"--output={results / 'corpus'}", *name_texts(texts))


def _build_beam(texts: Path, results: Path) -> list[str]:
    return [*_build_local(texts, results), f"--runner={_RUNNER}"]
