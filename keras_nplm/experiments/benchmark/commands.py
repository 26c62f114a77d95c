"""Whole commands as contenders: tokens per CPU second and peak memory, by the size of the text.

Each command runs in a process of its own on one core, from text files to its result on disk.
"""

import dataclasses
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from keras_nplm.data.corpora import Corpus
from keras_nplm.experiments.benchmark.children import measure_command
from keras_nplm.experiments.benchmark.contenders import summarise_rates, summarise_ratios
from keras_nplm.experiments.benchmark.sampled_text import sample_texts
from keras_nplm.io.errors import RunError

UNIT = "tokens/s"
NOT_INSTALLED = "not installed"
_PROGRAM = (sys.executable, "-m", "keras_nplm")


@dataclasses.dataclass(frozen=True)
class TimedCommand:
    """A command that reads the sampled text.

    Args:
        name: its name in the table.
        build: returns the program and its arguments, of the directory of the text and a new directory for results.
        peer: whether the other commands are compared with it.
        installed: whether the command can run here.
        parts: returns the CPU seconds of parts of the command by their names, of its standard output.
    """

    name: str
    build: Callable[[Path, Path], Sequence[str]]
    peer: bool = False
    installed: bool = True
    parts: Callable[[str], dict[str, float]] = lambda output: {}


def name_texts(directory: Path) -> list[str]:
    """Return the flags of a command of this package that name the sampled text."""
    flags = (f"--{split}={directory / f'{split}.txt'}" for split in ("train", "validation", "test"))
    return [*flags, "--tokenizer=whitespace"]


def call_package(*words: str) -> list[str]:
    """Return the command line of a command of this package."""
    return [*_PROGRAM, *words]


def measure_commands(
    commands: Sequence[TimedCommand],
    corpus: Corpus,
    rounds: int,
    tokens: Sequence[int],
    store: Callable[[Path], None] = lambda directory: None,
) -> list[dict]:
    """Return the rows of commands, which take turns, by the size of the text.

    Args:
        commands: the commands.
        corpus: the text that is sampled.
        rounds: number of runs of each command.
        tokens: sizes of the text.
        store: stores the text of a directory in a further format, which is not timed.
    """
    rows = []
    for size in tokens:
        with tempfile.TemporaryDirectory() as name:
            sample_texts(Path(name), corpus, size)
            store(Path(name))
            runs, failures = _run_commands(commands, Path(name), rounds, size)
        rates = {name: [size / run["cpu_seconds"] for run in measured] for name, measured in runs.items()}
        peers = [command.name for command in commands if command.peer and command.name not in failures]
        for command in commands:
            title = f"{command.name}, {size:,} tokens"
            if command.name in failures:
                rows.append({"name": title, "unit": UNIT, "failure": failures[command.name]})
                continue
            row = _summarise_runs(title, size, runs[command.name])
            if not command.peer:
                row["ratio_to"] = {peer: summarise_ratios(rates[command.name], rates[peer]) for peer in peers}
            rows += [row, *_summarise_parts(command, title, size, runs[command.name])]
    return rows


def _run_commands(
    commands: Sequence[TimedCommand], directory: Path, rounds: int, size: int
) -> tuple[dict[str, list[dict]], dict[str, str]]:
    """Run commands in turns. Return the measurements of each, and why others have none."""
    runs: dict[str, list[dict]] = {command.name: [] for command in commands}
    failures = {command.name: NOT_INSTALLED for command in commands if not command.installed}
    for number in range(1, rounds + 1):
        for command in commands:
            if command.name in failures:
                continue
            with tempfile.TemporaryDirectory(dir=directory) as results:
                words = command.build(directory, Path(results))
                try:
                    run = measure_command(words, command.name)
                except RunError as error:
                    if not command.peer:
                        raise
                    failures[command.name] = str(error)
                    print(error, file=sys.stderr)
                    continue
            runs[command.name].append(run)
            figures = f"{run['cpu_seconds']:.1f} CPU s, {run['peak_memory'] / 1e6:,.0f} MB"
            print(f"{command.name}, {size:,} tokens, round {number} of {rounds}: {figures}", file=sys.stderr)
    return runs, failures


def _summarise_runs(title: str, size: int, runs: Sequence[dict]) -> dict:
    row = summarise_rates(title, [size / run["cpu_seconds"] for run in runs], UNIT)
    row["cpu_seconds"] = statistics.median(run["cpu_seconds"] for run in runs)
    row["wall_rate"] = statistics.median(size / run["seconds"] for run in runs)
    row["peak_memory"] = max(run["peak_memory"] for run in runs)
    return row


def _summarise_parts(command: TimedCommand, title: str, size: int, runs: Sequence[dict]) -> list[dict]:
    """Return a row for each part of a command, without memory."""
    parts = [command.parts(run["output"]) for run in runs]
    rows = []
    for name in parts[0]:
        seconds = [part[name] for part in parts]
        row = summarise_rates(f"{title}: {name}", [size / max(spent, 1e-9) for spent in seconds], UNIT)
        rows.append(row | {"cpu_seconds": statistics.median(seconds)})
    return rows
