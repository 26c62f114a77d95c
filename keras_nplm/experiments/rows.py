"""Model directories that a report needs, each made by one command, once."""

import concurrent.futures
import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from keras_nplm.data.corpora import open_corpus
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import replace_file


@dataclasses.dataclass(frozen=True)
class Row:
    """A model of a report: the command that makes it, and what the paper measured for it.

    Args:
        name: its directory below `rows/`.
        title: how the table calls it.
        command: what follows `keras-nplm`; the output is added, and where it reads a text and names none `--corpus
            brown` and, if it names none, `--config brown`. `{rows}` stands for the directory of the rows, in commands
            that take other rows, and `{texts}` for that of texts which a study has written.
        paper: the paper's perplexity on validation and test, if it has the row.
        mixed: the name and the paper's figures of the same network mixed with the trigram, if it has that row.
    """

    name: str
    title: str
    command: str
    paper: tuple[int, int] | None = None
    mixed: tuple[str, int, int] | None = None

    @property
    def arguments(self) -> list[str]:
        """The words of the command, but for its output and where Brown's archive lies."""
        words = shlex.split(self.command)
        if not self.takes_corpus or "--train" in words:
            return words
        return [*words, "--corpus", "brown", *([] if "--config" in words else ["--config", "brown"])]

    @property
    def takes_corpus(self) -> bool:
        """Whether the command reads a text, rather than other rows."""
        return self.command.startswith(("train ", "ngram "))

    @property
    def is_network(self) -> bool:
        """Whether it is a network: slow, and mixed with the trigram."""
        return self.command.startswith("train")


def make_rows(
    rows: Sequence[Row], directory: str | os.PathLike, *, jobs: int | None = None, data_dir: str | None = None
) -> None:
    """Make the rows that are not made yet, each in `rows/NAME`, with its messages in `rows/NAME.log`.

    What was interrupted is gone on with.

    Args:
        rows: the rows.
        directory: where `rows/` is.
        jobs: how many are made side by side, each with its share of the cores. Default: 2 where there are cores.
        data_dir: where Brown's archive lies or is downloaded to.

    Raises:
        InputError: `jobs` is less than 1.
        RunError: a row failed; the others are kept.
    """
    directory = Path(directory)
    jobs = min(2, _cores()) if jobs is None else jobs
    if jobs < 1:
        raise InputError(f"`jobs` must be 1 or more. Received: {jobs}.")
    missing = [row for row in rows if not is_made(row, directory)]
    if any("--corpus" in row.arguments for row in missing):
        open_corpus("brown", data_dir=data_dir)  # here, before several commands want it prepared at once
    (directory / "rows").mkdir(parents=True, exist_ok=True)
    failed = []
    for together in ([row for row in missing if row.takes_corpus], [row for row in missing if not row.takes_corpus]):
        failed += _make_all(together, directory, jobs, data_dir)
    if failed:
        log = directory / "rows" / f"{failed[0].name}.log"
        raise RunError(f"{len(failed)} row(s) failed; the others are in {directory}. See {log}: {_last_line(log)}")


def _make_all(rows: Sequence[Row], directory: Path, jobs: int, data_dir: str | None) -> list[Row]:
    """Make some rows side by side; those that failed."""
    failed = []
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        running = {pool.submit(_make, row, directory, max(1, _cores() // jobs), data_dir): row for row in rows}
        for done, future in enumerate(concurrent.futures.as_completed(running), start=1):
            row, status = running[future], future.result()
            failed += [row] if status else []
            print(f"[{done}/{len(rows)}] {row.name}: {'failed' if status else 'made'}", file=sys.stderr)
    finally:
        pool.shutdown(cancel_futures=True)  # where it was interrupted, the commands were, too; no other begins
    return failed


def is_made(row: Row, directory: Path) -> bool:
    """Whether the row was made by the command that it has now."""
    record = directory / "rows" / row.name / "command.txt"
    return record.is_file() and record.read_text(encoding="utf-8") == shlex.join(row.arguments)


def _make(row: Row, directory: Path, threads: int, data_dir: str | None) -> int:
    """Run the command of a row; its exit status."""
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _last_line(path: Path) -> str:
    return (path.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it is empty"])[-1]
