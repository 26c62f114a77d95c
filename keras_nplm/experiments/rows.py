"""Models that a report needs: each row is one model directory, made once by one command.

Below `rows/` of a directory, NAME is the model directory, NAME.log has the messages of its command,
and NAME.json the origins of the code that made it: one, or several after a resume elsewhere. The
key of the stage NAME is its command, and size and checksum of its text.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.corpora.text_files import expand_patterns
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.data.processes import count_processes
from keras_nplm.experiments.origin import Origin, describe_origin
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import identify_content, read_json, write_json
from keras_nplm.io.stages import Stages

_FIGURES = ("cpu_seconds", "training_cpu_seconds", "ngrams_per_second", "parameters")


@dataclasses.dataclass(frozen=True)
class Row:
    """One model of a report."""

    name: str  # of its directory below `rows/`
    title: str  # in the table
    command: str  # the arguments of `keras-nplm`, without `--output`

    @property
    def full_command(self) -> str:
        return f"keras-nplm {self.command} --output runs/{self.name}"


def read_row(row: Row, directory: Path) -> dict[str, Any]:
    """Return the figures of a row that exists, from `rows/NAME/metrics.json`."""
    metrics = read_json(directory / "rows" / row.name / "metrics.json")
    figures: dict[str, Any] = {"name": row.name, "title": row.title, "command": row.full_command}
    figures.update({split: metrics[split]["perplexity"] for split in HELD_OUT})
    figures.update({name: metrics[name] for name in _FIGURES if name in metrics})
    if "ln_z" in metrics["test"]:
        figures["log_z"] = metrics["test"]["ln_z"]["mean_absolute"]
    if "history" in metrics:
        figures["epochs"] = len(metrics["history"])
    return figures


def make_rows(
    rows: Sequence[Row], directory: Path, jobs: int | None = None, data_dir: str | None = None
) -> None:
    """Make the rows that do not exist yet, `jobs` at once."""
    missing = [row for row in rows if not is_made(row, directory)]
    if not missing:
        return
    if any("--corpus brown" in row.command for row in missing):
        from keras_nplm.data.corpora.opening import open_corpus

        # so that parallel commands do not download it at once
        open_corpus("brown", data_dir=data_dir)
    jobs = jobs or min(2, count_processes())
    threads = max(1, count_processes() // jobs)
    here = describe_origin()
    failed = []
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {
            pool.submit(_make, row, directory, threads, data_dir, here): row.name for row in missing
        }
        for done, future in enumerate(concurrent.futures.as_completed(running), start=1):
            name = running[future]
            outcome = "made"
            try:
                future.result()
            except RunError:
                failed.append(name)
                outcome = "failed"
            print(f"[{done}/{len(missing)}] {name}: {outcome}", file=sys.stderr)
    finally:
        # an interruption also reaches the commands; no further command starts
        pool.shutdown(cancel_futures=True)
    if failed:
        log = directory / "rows" / f"{failed[0]}.log"
        last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        raise RunError(
            f"{len(failed)} row(s) failed: {', '.join(failed)}. Other rows are kept. See {log}: "
            f"{last}"
        )


def is_made(row: Row, directory: Path) -> bool:
    """Return whether the row exists and was made by its present command, of its present text."""
    stages = Stages(directory / "rows")
    return stages.is_made(row.name) and stages.read_key(row.name) == _describe(row)


def _describe(row: Row) -> dict[str, Any]:
    """Return the command of a row, and the size and checksum of the files of `--train`."""
    pairs = itertools.pairwise(shlex.split(row.command))
    contents: list[str] = []
    with contextlib.suppress(InputError):  # the command refuses a text that is absent
        files = expand_patterns([name for flag, name in pairs if flag == "--train"])
        contents += map(identify_content, files)
    return {"command": row.command, "text": contents}


def read_origins(rows: Sequence[Row], directory: Path) -> dict[str, list[Origin]]:
    """Return the origins of the rows that are made, by the path of their directory."""
    places = [directory / "rows" / row.name for row in rows if is_made(row, directory)]
    return {str(place): read_json(f"{place}.json")["origins"] for place in places}


def _make(row: Row, directory: Path, threads: int, data_dir: str | None, here: Origin) -> None:
    """Make a row by its command, or resume it."""
    run = functools.partial(_run, row, directory / "rows" / row.name, threads, data_dir, here)
    outputs = [row.name, f"{row.name}.json"]
    Stages(directory / "rows").make(row.name, _describe(row), outputs, run, replace=True)


def _run(row: Row, model: Path, threads: int, data_dir: str | None, here: Origin) -> None:
    record = Path(f"{model}.json")
    before = read_json(record)["origins"] if record.exists() else []
    write_json(record, {"origins": [*(origin for origin in before if origin != here), here]})
    command = [sys.executable, "-m", "keras_nplm", *shlex.split(row.command)]
    command += ["--output", str(model)]
    if data_dir and "--corpus" in command:
        command += ["--data-dir", data_dir]
    environment = dict(os.environ)
    environment["TF_NUM_INTRAOP_THREADS"] = str(threads)
    environment["TF_NUM_INTEROP_THREADS"] = "1"
    with open(f"{model}.log", "ab") as log:
        run = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False)
    if run.returncode != 0:
        raise RunError(f"{row.name} failed.")
