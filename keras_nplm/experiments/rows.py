"""Models that a report needs: each row is one model directory, made once by one command."""

import concurrent.futures
import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_json, replace_file
from keras_nplm.io.options import name_flag
from keras_nplm.training.configuration import NAMED_OPTIONS


@dataclasses.dataclass(frozen=True)
class Row:
    """One model of a report: the command that makes it, and the paper's figures for it.

    Args:
        name: name of its directory below `rows/`.
        title: its name in the table.
        command: the arguments of `keras-nplm`, without `--output`. A command that reads a text and names none gets
            `--corpus brown`, and `--config brown` if it names no configuration. `{rows}` stands for the directory of
            all rows, in commands that read other rows. `{texts}` stands for the directory of the texts of a study.
        paper: the paper's perplexity on validation and test, if the paper has the row.
        mixed: title, validation and test perplexity of this network mixed with the trigram, if the paper has that row.
    """

    name: str
    title: str
    command: str
    paper: tuple[int, int] | None = None
    mixed: tuple[str, int, int] | None = None

    @property
    def arguments(self) -> list[str]:
        """The arguments of `keras-nplm`, without `--output` and `--data-dir`."""
        words = shlex.split(self.command)
        if not self.takes_corpus or "--train" in words or "--corpus" in words:
            return words
        return [*words, "--corpus", "brown", *([] if "--config" in words else ["--config", "brown"])]

    @property
    def full_command(self) -> str:
        """The command as one types it, with `--output`."""
        return f"keras-nplm {shlex.join(self.arguments)} --output runs/{self.name}"

    @property
    def takes_corpus(self) -> bool:
        """Whether the command reads a text. If not, it reads other rows."""
        return self.command.startswith(("train ", "ngram "))

    @property
    def is_network(self) -> bool:
        """Whether the model is a neural network."""
        return self.command.startswith("train")


def make_rows(
    rows: Sequence[Row], directory: str | os.PathLike, *, jobs: int | None = None, data_dir: str | None = None
) -> None:
    """Make the rows that do not exist yet: `rows/NAME` is the model directory, `rows/NAME.log` has the messages.

    Re-running resumes: finished rows are kept, and an interrupted training continues from its checkpoint.

    Args:
        rows: the rows.
        directory: the directory of `rows/`.
        jobs: number of rows made in parallel, each with an equal share of the cores. Default: 2, or 1 on one core.
        data_dir: directory of Brown's archive, to which it is downloaded if it is absent.

    The caller locks the directory; each command locks the directory of its row.

    Raises:
        InputError: `jobs` is less than 1.
        RunError: a command failed. Other rows are kept.
    """
    directory = Path(directory)
    jobs = min(2, _count_cores()) if jobs is None else jobs
    if jobs < 1:
        raise InputError(f"`jobs` must be 1 or more. Received: {jobs}.")
    missing = [row for row in rows if not is_made(row, directory)]
    if any("--corpus" in row.arguments for row in missing):
        from keras_nplm.data.corpora import open_corpus

        open_corpus("brown", data_dir=data_dir)  # so that parallel commands do not download it at once
    (directory / "rows").mkdir(parents=True, exist_ok=True)
    independent = [row for row in missing if row.takes_corpus]
    dependent = [row for row in missing if not row.takes_corpus]
    failed = _make_in_parallel(independent, directory, jobs, data_dir)
    failed += _make_in_parallel(dependent, directory, jobs, data_dir)
    if failed:
        log = directory / "rows" / f"{failed[0].name}.log"
        names = ", ".join(row.name for row in failed)
        raise RunError(f"{len(failed)} row(s) failed: {names}. Other rows are kept. See {log}: {_read_last_line(log)}")


def is_made(row: Row, directory: Path) -> bool:
    """Return whether the row exists and was made by its present command, with its configuration as it is now."""
    record = directory / "rows" / row.name / "command.txt"
    if not record.is_file() or record.read_text(encoding="utf-8") != shlex.join(row.arguments):
        return False
    words, trained = row.arguments, record.with_name("config.json")
    if not row.is_network or "--config" not in words or not trained.is_file():
        return True
    options, written = read_json(trained), NAMED_OPTIONS.get(words[words.index("--config") + 1], {})
    flags = {word.partition("=")[0].replace("--no-", "--") for word in words}
    return all(options.get(name) == value for name, value in written.items() if name_flag(name) not in flags)


def _make_in_parallel(rows: Sequence[Row], directory: Path, jobs: int, data_dir: str | None) -> list[Row]:
    """Make rows in parallel; return the rows that failed."""
    failed = []
    threads = max(1, _count_cores() // jobs)
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(_make, row, directory, threads, data_dir): row for row in rows}
        for done, future in enumerate(concurrent.futures.as_completed(running), start=1):
            row, status = running[future], future.result()
            failed += [row] if status else []
            print(f"[{done}/{len(rows)}] {row.name}: {'failed' if status else 'made'}", file=sys.stderr)
    finally:
        pool.shutdown(cancel_futures=True)  # an interruption also reaches the commands; no further command starts
    return failed


def _make(row: Row, directory: Path, threads: int, data_dir: str | None) -> int:
    """Run the command of a row; return its exit status."""
    places = {"{rows}": str(directory / "rows"), "{texts}": str(directory / "texts")}
    command = [sys.executable, "-m", "keras_nplm"]
    for word in row.arguments:
        for name, place in places.items():
            word = word.replace(name, place)
        command.append(word)
    command += ["--output", str(directory / "rows" / row.name)]
    command += ["--data-dir", data_dir] if data_dir and row.takes_corpus else []
    environment = os.environ | {"TF_NUM_INTRAOP_THREADS": str(threads), "TF_NUM_INTEROP_THREADS": "1"}
    with open(directory / "rows" / f"{row.name}.log", "ab") as log:
        status = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False).returncode
    if not status:
        with replace_file(directory / "rows" / row.name / "command.txt") as temporary:
            temporary.write_text(shlex.join(row.arguments), encoding="utf-8")
    return status


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _read_last_line(path: Path) -> str:
    return (path.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["(empty)"])[-1]
