"""Models that a report needs: each row is one model directory, made once by one command.

Below `rows/` of a directory, NAME is the model directory, NAME.log has the messages of its command,
and NAME.json the origins of the code that made it: one, or several after a resume elsewhere.
`command.txt` of the model directory has its command, and size and checksum of its text.
"""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpora.text_files import expand_patterns
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.worker_pool import count_processes
from keras_nplm.experiments.origin import Origin, describe_origin
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import identify_content, read_json, replace_file, write_json

_FIGURES = (
    "seconds",
    "cpu_seconds",
    "training_cpu_seconds",
    "ngrams_per_second",
    "parameters",
)
# it imports TensorFlow, and rows are made by threads: a second import would see half of it
_DESCRIBING = threading.Lock()


@dataclasses.dataclass(frozen=True)
class Row:
    """One model of a report.

    Its command gets `--corpus brown`, and `--config brown` if it names no configuration.
    """

    name: str  # of its directory below `rows/`
    title: str  # in the table
    command: str  # the arguments of `keras-nplm`, without `--output`
    paper: tuple[int, int] | None = None  # the paper's perplexity on validation and test
    # the paper's title and perplexities, mixed with the trigram
    mixed: tuple[str, int, int] | None = None

    @property
    def arguments(self) -> list[str]:
        words = shlex.split(self.command)
        if "--train" in words or "--corpus" in words:
            return words
        if "--config" in words:
            return [*words, "--corpus", "brown"]
        return [*words, "--corpus", "brown", "--config", "brown"]

    @property
    def full_command(self) -> str:
        return f"keras-nplm {shlex.join(self.arguments)} --output runs/{self.name}"

    @property
    def is_network(self) -> bool:
        return self.command.startswith("train")


def read_row(row: Row, directory: Path) -> dict:
    """Return the figures of a row that exists, from `rows/NAME/metrics.json`."""
    metrics = read_json(directory / "rows" / row.name / "metrics.json")
    figures: dict[str, Any] = {"name": row.name, "title": row.title, "command": row.full_command}
    for split in HELD_OUT:
        figures[split] = metrics[split]["perplexity"]
    figures["log_z"] = metrics["test"].get("ln_z", {}).get("mean_absolute")
    for name in _FIGURES:
        if name in metrics:
            figures[name] = metrics[name]
    if row.is_network:
        figures["epochs"] = len(metrics["history"])
    return figures


def make_rows(
    rows: Sequence[Row], directory: Path, jobs: int | None = None, data_dir: str | None = None
) -> None:
    """Make the rows that do not exist yet."""
    if jobs is None:
        jobs = min(2, count_processes())
    missing = [row for row in rows if not is_made(row, directory)]
    if any("--corpus" in row.arguments for row in missing):
        from keras_nplm.data.corpora.opening import open_corpus

        # so that parallel commands do not download it at once
        open_corpus("brown", data_dir=data_dir)
    (directory / "rows").mkdir(parents=True, exist_ok=True)
    failed = _run_commands(missing, directory, jobs, data_dir)
    if failed:
        log = directory / "rows" / f"{failed[0]}.log"
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise RunError(
            f"{len(failed)} row(s) failed: {', '.join(failed)}. Other rows are kept. See {log}: "
            f"{last}"
        )


def _run_commands(
    rows: Sequence[Row], directory: Path, jobs: int, data_dir: str | None
) -> list[str]:
    """Run the commands of rows, some side by side. Return the names of the rows that failed."""
    failed = []
    threads = max(1, count_processes() // jobs)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(_make, row, directory, threads, data_dir): row.name for row in rows}
        for done, future in enumerate(concurrent.futures.as_completed(running), start=1):
            name = running[future]
            outcome = "made"
            if future.result() != 0:
                outcome = "failed"
                failed.append(name)
            print(f"[{done}/{len(rows)}] {name}: {outcome}", file=sys.stderr)
    finally:
        # an interruption also reaches the commands; no further command starts
        pool.shutdown(cancel_futures=True)
    return failed


def is_made(row: Row, directory: Path) -> bool:
    """Return whether the row exists and was made by its present command, of its present text."""
    record = directory / "rows" / row.name / "command.txt"
    return record.is_file() and record.read_text(encoding="utf-8") == describe_command(row)


def describe_command(row: Row) -> str:
    """Return the command of a row, and in further lines the size and checksum of the files of
    `--train`.
    """
    words = row.arguments
    names = [name for flag, name in itertools.pairwise(words) if flag == "--train"]
    described = [shlex.join(words)]
    with contextlib.suppress(InputError):  # the command refuses a text that is absent
        described += map(identify_content, expand_patterns(names))
    return "\n".join(described)


def read_origins(rows: Sequence[Row], directory: Path) -> dict[str, list[Origin]]:
    """Return the origins of the rows that are made, by path; [] if they are not recorded."""
    origins = {}
    for row in rows:
        if is_made(row, directory):
            origins[str(directory / "rows" / row.name)] = _read_origins(row, directory)
    return origins


def _read_origins(row: Row, directory: Path) -> list[Origin]:
    path = directory / "rows" / f"{row.name}.json"
    return read_json(path)["origins"] if path.exists() else []


def _add_origin(row: Row, directory: Path) -> None:
    """Record that this code begins or resumes a row."""
    is_begun = (directory / "rows" / row.name).exists()
    origins = _read_origins(row, directory) if is_begun else []
    with _DESCRIBING:
        here = describe_origin()
    # a run that was begun before origins were recorded stays without one
    if origins or not is_begun:
        others = [origin for origin in origins if origin != here]
        write_json(directory / "rows" / f"{row.name}.json", {"origins": [*others, here]})


def _make(row: Row, directory: Path, threads: int, data_dir: str | None) -> int:
    """Run the command of a row; return its exit status."""
    model = directory / "rows" / row.name
    made = describe_command(row)
    _add_origin(row, directory)
    command = [sys.executable, "-m", "keras_nplm", *row.arguments, "--output", str(model)]
    if data_dir and "--corpus" in row.arguments:
        command += ["--data-dir", data_dir]
    environment = dict(os.environ)
    environment["TF_NUM_INTRAOP_THREADS"] = str(threads)
    environment["TF_NUM_INTEROP_THREADS"] = "1"
    with open(f"{model}.log", "ab") as log:
        run = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False)
    if run.returncode == 0:
        with replace_file(model / "command.txt") as temporary:
            temporary.write_text(made, encoding="utf-8")
    return run.returncode
