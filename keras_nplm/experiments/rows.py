"""Models that a report needs: each row is one model directory, made once by one command."""

import concurrent.futures
import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.worker_pool import count_processes
from keras_nplm.experiments.tables import SPLITS
from keras_nplm.io.errors import RunError
from keras_nplm.io.files import read_json, replace_file

_FIGURES = (
    "seconds",
    "cpu_seconds",
    "training_cpu_seconds",
    "ngrams_per_second",
    "parameters",
    "processor",
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One model of a report.

    Its command gets `--corpus brown`, and `--config brown` if it names no configuration.

    In a command `{study}` stands for the directory that has `rows/`.
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
        return [
            *words,
            "--corpus",
            "brown",
            *([] if "--config" in words else ["--config", "brown"]),
        ]

    @property
    def full_command(self) -> str:
        return f"keras-nplm {shlex.join(self.arguments)} --output runs/{self.name}"

    @property
    def is_network(self) -> bool:
        return self.command.startswith("train")


def read_row(row: Row, directory: Path) -> dict:
    """Return the figures of a row that exists, from `rows/NAME/metrics.json`."""
    metrics = read_json(directory / "rows" / row.name / "metrics.json")
    figures = {"name": row.name, "title": row.title, "command": row.full_command}
    figures |= {split: metrics[split]["perplexity"] for split in SPLITS}
    figures["without_unk"] = {split: metrics[split]["perplexity_without_unk"] for split in SPLITS}
    figures["log_z"] = metrics["test"].get("ln_z", {}).get("mean_absolute")
    figures |= {name: metrics[name] for name in _FIGURES if name in metrics}
    return figures | ({"epochs": len(metrics["history"])} if row.is_network else {})


def make_rows(
    rows: Sequence[Row], directory: Path, jobs: int | None = None, data_dir: str | None = None
) -> None:
    """Make the rows that do not exist yet: `rows/NAME` is the model directory, `rows/NAME.log` has
    the messages.
    """
    jobs = min(2, count_processes()) if jobs is None else jobs
    missing = [row for row in rows if not is_made(row, directory)]
    if any("--corpus" in row.arguments for row in missing):
        from keras_nplm.data.corpora.opening import open_corpus

        # so that parallel commands do not download it at once
        open_corpus("brown", data_dir=data_dir)
    (directory / "rows").mkdir(parents=True, exist_ok=True)
    failed = []
    threads = max(1, count_processes() // jobs)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {
            pool.submit(_make, row, directory, threads, data_dir): row.name for row in missing
        }
        for done, future in enumerate(concurrent.futures.as_completed(running), start=1):
            name = running[future]
            status = future.result()
            failed += [name] if status else []
            print(
                f"[{done}/{len(missing)}] {name}: {'failed' if status else 'made'}", file=sys.stderr
            )
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
    """Return whether the row exists and was made by its present command."""
    record = directory / "rows" / row.name / "command.txt"
    return record.is_file() and record.read_text(encoding="utf-8") == shlex.join(row.arguments)


def _make(row: Row, directory: Path, threads: int, data_dir: str | None) -> int:
    model = directory / "rows" / row.name
    arguments = [argument.replace("{study}", str(directory)) for argument in row.arguments]
    command = [sys.executable, "-m", "keras_nplm", *arguments, "--output", str(model)]
    command += ["--data-dir", data_dir] if data_dir and "--corpus" in arguments else []
    environment = os.environ | {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": "1",
    }
    with open(f"{model}.log", "ab") as log:
        status = subprocess.run(
            command, stdout=log, stderr=log, env=environment, check=False
        ).returncode
    if not status:
        with replace_file(model / "command.txt") as temporary:
            temporary.write_text(shlex.join(row.arguments), encoding="utf-8")
    return status
