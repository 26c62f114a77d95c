"""Count and encode pieces of text on a cluster: pipelines of Apache Beam for `keras-nplm prepare --runner`.

Beam only distributes the work. The functions that count and encode a piece are those of the local path, so that the
files are the same, byte for byte. The driver, which runs the command, builds the vocabulary and writes `corpus.json`.
The driver and all workers must see the output directory under the same path, and the text under the same paths or as
`gs://` and `s3://` URLs. They must have the same version of this package.
"""

import contextlib
import functools
import importlib
import io
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras_nplm
import keras_nplm.io.errors as errors
from keras_nplm.data.corpora.pieces import Piece
from keras_nplm.data.word_counts import PieceCounter
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import read_json, read_text, replace_file
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import fetch, name_source

_PARTS = 64  # files of counted words; a worker holds the words of one
_SCRATCH = ".beam"  # directory in the output directory, with the job, its results and the counted words
_OPTION = re.compile(r"[A-Za-z_]\w*(=.*)?", re.DOTALL)
_JOB = "job.json"
_ERROR = re.compile(r"[\w.]*(Error|Exception): ")
_loading = threading.Lock()


class BeamRunner:
    """Runs tasks on pieces of text by Apache Beam; see `keras_nplm.data.corpora.pieces.PieceRunner`.

    Args:
        name: a runner of Beam, such as `"DirectRunner"`, `"FlinkRunner"`, `"SparkRunner"` or `"DataflowRunner"`.
        directory: the output directory. All workers must see it.
        options: pipeline options of Beam, each `NAME=VALUE` or `NAME`.

    Raises:
        InputError: Beam is not installed, or an option is invalid.
    """

    def __init__(self, name: str, directory: str | os.PathLike, options: Sequence[str] = ()):
        with _hide_warnings():
            self._beam = import_extra("apache_beam", "beam", f"`--runner {name}`")
        self._name, self._directory = name, Path(os.path.abspath(directory))
        self._options = self._parse_options(options)

    def _parse_options(self, options: Sequence[str]) -> Any:
        for option in options:
            if not _OPTION.fullmatch(option):
                raise InputError(
                    f"`--pipeline-options` must be NAME=VALUE or NAME. Received: {option!r}. Fix: write them as in "
                    "--pipeline-options flink_master=host:8081 parallelism=8."
                )
        words = ["--default_sdk_harness_log_level=ERROR", *(f"--{option}" for option in options)]
        pipeline_options = importlib.import_module("apache_beam.options.pipeline_options")
        messages = io.StringIO()
        try:
            with contextlib.redirect_stderr(messages):
                parsed = pipeline_options.PipelineOptions([f"--runner={self._name}", *words])
                parsed.get_all_options()
        except SystemExit as error:
            problem = messages.getvalue().strip().rpartition("error: ")[2]
            raise InputError(
                f"`--pipeline-options` must be options of Apache Beam. Received: {' '.join(options)} ({problem}). Fix: "
                "see the documentation of the runner."
            ) from error
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        try:
            self._beam.runners.runner.create_runner(self._name)
        except (ValueError, ImportError, AttributeError) as error:
            raise InputError(
                f"`--runner` must be local or a runner of Apache Beam. Received: {self._name!r} "
                f"({_last_line(error)}). Fix: choose DirectRunner, FlinkRunner, SparkRunner or DataflowRunner."
            ) from error
        return parsed

    def run(self, task: str, options: dict, items: Sequence[dict]) -> list[dict]:
        """Run a task on items.

        Args:
            task: `"module:Class"`; see `keras_nplm.data.worker_pool.run_in_processes`.
            options: keyword arguments of the class.
            items: keyword arguments of each call.

        Returns:
            the results of the calls, in the order of the items.

        Raises:
            InputError, RunError: the task raised this error on an item, the first item if there are several.
            RunError: the pipeline failed.
        """
        if "directory" in options:
            options = options | {"directory": _make_absolute(options["directory"])}
        with self._open_job({"task": task, "options": options}) as job:

            def build(numbered: Any) -> None:
                numbered | "Run" >> self._beam.Map(run_item, str(job))

            self._run_pipeline(items, build)
            return _read_results(job, len(items))

    def count_words(self, tokenizer: str, pieces: Sequence[Piece]) -> Iterator[tuple[str, int]]:
        """Count the words of pieces: iterate over (word, count), each word once.

        Args:
            tokenizer: name of the tokenizer.
            pieces: the places of the text.

        Raises:
            InputError, RunError: as `run`.
        """
        with self._open_job({"tokenizer": tokenizer}) as job:

            def build(numbered: Any) -> None:
                beam = self._beam
                (
                    numbered
                    | "Count" >> beam.FlatMap(count_item, str(job)).with_output_types(tuple[str, int])
                    | "Sum" >> beam.CombinePerKey(sum)
                    | "Part" >> beam.Map(_assign_part)
                    | "Group" >> beam.GroupByKey()
                    | "Write" >> beam.Map(write_part, str(job))
                )

            items = [{"piece": {"ranges": p.ranges, "sentences": p.sentences, "examples": p.examples}} for p in pieces]
            self._run_pipeline(items, build)
            lacking = sum(result["tokens"] for result in _read_results(job, len(items)))
            for part in range(_PARTS):
                path = _name_part(job, part)
                for word, count in json.loads(read_text(path)) if path.exists() else ():
                    lacking -= count
                    yield word, count
            if lacking:
                raise _not_shared(job)

    @contextlib.contextmanager
    def _open_job(self, job: dict) -> Iterator[Path]:
        """Write a job to a new directory that all workers see, and remove it at the end of the block."""
        for stale in self._directory.glob(f"{_SCRATCH}.*"):  # of a killed driver: the caller holds the lock
            shutil.rmtree(stale, ignore_errors=True)
        directory = self._directory / f"{_SCRATCH}.{uuid.uuid4().int}"
        try:
            _write(directory / _JOB, job | {"version": keras_nplm.__version__})
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run_pipeline(self, items: Sequence[dict], build: Callable[[Any], None]) -> None:
        """Run a pipeline over numbered items until it ends.

        Raises:
            RunError: it failed.
        """
        beam, state, running = self._beam, "", None
        print(f"Pieces of text on {self._name}: {len(items)}", file=sys.stderr)
        try:
            pipeline = beam.Pipeline(options=self._options)
            numbered = [(number, json.dumps(_make_piece_absolute(item))) for number, item in enumerate(items)]
            build(pipeline | "Pieces" >> beam.Create(numbered) | "Spread" >> beam.GroupByKey())  # over all workers
            running = pipeline.run()
            state = running.wait_until_finish()
        except Exception as error:
            if errors.follows_error(error, KeyboardInterrupt):
                raise
            raise self._failure(_last_line(error)) from error
        finally:
            if running is not None and not state:  # interrupted: a cluster would go on
                with contextlib.suppress(Exception):
                    running.cancel()
        if state not in (None, "DONE"):
            raise self._failure(f"it ended as {state}")

    def _failure(self, reason: str) -> RunError:
        return RunError(
            f"The Apache Beam pipeline failed on {self._name} ({reason.rstrip('.')}). Finished shards are kept. Fix: "
            "check --pipeline-options and the runner's log, then run the same command again."
        )


def run_item(numbered: tuple[int, Iterable[str]], job: str) -> None:
    """Run the task of a job on one item, in a worker of Beam, and write its result to the directory of the job.

    An error of the task is a result, so that Beam neither repeats the item nor prints a traceback.
    """
    number, (item,) = numbered
    with _write_result(number, job) as result:
        result |= _load_task(job)(**_fetch_piece(item))


def count_item(numbered: tuple[int, Iterable[str]], job: str) -> Iterator[tuple[str, int]]:
    """Count the words of one item, in a worker of Beam: iterate over (word, count). An error is written as a result."""
    number, (item,) = numbered
    with tempfile.TemporaryDirectory() as directory, _write_result(number, job) as result:
        result["tokens"] = 0
        counter = PieceCounter(_load_job(job)["tokenizer"], directory)
        counter.add(Piece(**_fetch_piece(item)["piece"]))
        for word, count in counter.pairs():
            result["tokens"] += count
            yield word, count


def _assign_part(counted: tuple[str, int]) -> tuple[int, tuple[str, int]]:
    return zlib.crc32(counted[0].encode("utf-8", "surrogatepass")) % _PARTS, counted


def write_part(part: tuple[int, Iterable[tuple[str, int]]], job: str) -> None:
    """Write a part of all words with their counts, in a worker of Beam."""
    _write(_name_part(Path(job), part[0]), [*part[1]])


def _write(path: Path, value: object) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(json.dumps(value), encoding="utf-8")


def _name_part(job: Path, part: int) -> Path:
    return job / f"{part}.counts.json"


@contextlib.contextmanager
def _write_result(number: int, job: str) -> Iterator[dict]:
    """Yield a dictionary for the result of an item, and write it at the end of the block, or the error of the block."""
    result: dict = {}
    try:
        yield result
    except (InputError, RunError) as error:
        kind = "InputError" if isinstance(error, InputError) else "RunError"
        result = {"error": kind, "message": str(error)}
    _write(Path(job) / f"{number}.json", result)


def _read_results(job: Path, number: int) -> list[dict]:
    """Read the results of all items.

    Raises:
        InputError, RunError: the error of the first item that has one.
        RunError: a result is absent.
    """
    paths = [job / f"{item}.json" for item in range(number)]
    if not all(path.exists() for path in paths):
        raise _not_shared(job)
    results = [read_json(path) for path in paths]
    for result in results:
        if "error" in result:
            raise getattr(errors, result["error"])(result["message"])
    return results


def _not_shared(job: Path) -> RunError:
    return RunError(
        f"Results of the Apache Beam workers are absent from {job.parent}. Fix: choose an `--output` on a file system "
        "that this machine and all workers share."
    )


def _load_job(job: str) -> dict:
    """Read the description of a job, which is the same in all workers.

    Raises:
        InputError: the worker has a different version of this package.
    """
    described = json.loads(read_text(Path(job) / _JOB))
    if described["version"] != keras_nplm.__version__:
        raise InputError(
            f"The Apache Beam workers must have keras-nplm {described['version']}. Received: {keras_nplm.__version__}. "
            "Fix: install the same version on all machines."
        )
    return described


def _load_task(job: str) -> Callable[..., dict]:
    with _loading:  # threads of one worker share the task, whose vocabulary may be large
        return _make_task(job)


@functools.lru_cache(1)
def _make_task(job: str) -> Callable[..., dict]:
    described = _load_job(job)
    module, _, name = described["task"].partition(":")
    return getattr(importlib.import_module(module), name)(**described["options"])


def _make_piece_absolute(item: dict) -> dict:
    """Make the paths of a piece absolute or URLs: workers have different working directories and caches."""
    piece = dict(item["piece"])
    piece["ranges"] = [(_make_absolute(path), *places) for path, *places in piece["ranges"]]
    if piece["examples"]:
        piece["examples"] = [_make_absolute(piece["examples"][0]), *piece["examples"][1:]]
    return item | {"piece": piece}


def _make_absolute(path: str) -> str:
    source = name_source(path)
    return source if is_remote(source) else os.path.abspath(source)


def _fetch_piece(item: str) -> dict:
    """Return an item with local paths: a worker downloads remote files to its own cache."""
    fields = json.loads(item)
    piece = fields["piece"]
    piece["ranges"] = [(str(fetch(path)), *places) for path, *places in piece["ranges"]]
    return fields


def _last_line(error: BaseException) -> str:
    """Return the last line that names an error: Beam puts the traceback of a worker before it.

    Example:

    >>> _last_line(RuntimeError("Traceback …\\nImportError: No module named 'keras_nplm'\\n... 1 more"))
    "ImportError: No module named 'keras_nplm'"
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _ERROR.match(line)]
    return [type(error).__name__, *lines[-1:], *named[-1:]][-1]


@contextlib.contextmanager
def _hide_warnings() -> Iterator[None]:
    """Hide the warnings of Beam about its own optional libraries while it is imported."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
