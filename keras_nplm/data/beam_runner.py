"""Count and encode pieces of text on a cluster: pipelines of Apache Beam for `keras-nplm prepare --runner`.

Beam only distributes the work. The functions that count and encode a piece are those of the local path, so that the
files are the same, byte for byte. The driver and all workers must see the output directory under the same path, and the
text under the same paths or as `gs://` and `s3://` URLs. They must have the same version of this package.
"""

import contextlib
import importlib
import io
import json
import logging
import operator
import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras_nplm
import keras_nplm.io.errors as errors
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.extras import import_extra
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import fetch, name_source


class BeamRunner:
    """Runs tasks by Apache Beam on one of its runners, with pipeline options `NAME=VALUE` or `NAME`; see `PieceRunner`.

    Raises:
        InputError: Beam is not installed, or an option is invalid.
    """

    def __init__(self, name: str, directory: str | os.PathLike, options: Sequence[str] = ()):
        logging.disable(logging.WARNING)  # Beam warns about its own optional libraries while it is imported
        try:
            self._beam = import_extra("apache_beam", "beam", f"`--runner {name}`")
        finally:
            logging.disable(logging.NOTSET)
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        self._name, self.directory = name, os.path.abspath(directory)
        words = [f"--runner={name}", "--default_sdk_harness_log_level=ERROR", *(f"--{option}" for option in options)]
        messages = io.StringIO()
        try:
            with contextlib.redirect_stderr(messages):
                self._options = importlib.import_module("apache_beam.options.pipeline_options").PipelineOptions(words)
                self._options.get_all_options()
                self._beam.runners.runner.create_runner(name)
        except (SystemExit, ValueError, ImportError, AttributeError) as error:
            problem = messages.getvalue().strip().rpartition("error: ")[2] if isinstance(error, SystemExit) else error
            raise InputError(
                "`--runner` must be local or a runner of Apache Beam, such as FlinkRunner, SparkRunner or "
                "DataflowRunner, and `--pipeline-options` its NAME=VALUE or NAME. Received: "
                f"{' '.join([name, *options])} ({problem}). Fix: see the documentation of the runner."
            ) from error

    @contextlib.contextmanager
    def open_scratch(self) -> Iterator[str]:
        """Yield a new directory that all workers see, and remove it at the end of the block."""
        directory = os.path.join(self.directory, f".beam.{uuid.uuid4().int}")  # a name of `io.files.is_temporary`
        os.makedirs(directory)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def run(self, task: str, options: dict, items: Sequence[dict]) -> tuple[list[dict], list[dict]]:
        """Run a task on items as `run_task` does; each item has a task object of its own."""
        if not items:
            return [], []
        if "directory" in options:
            options = options | {"directory": os.path.abspath(options["directory"])}
        beam, state, running = self._beam, "", None
        print(f"Pieces of text on {self._name}: {len(items)}", file=sys.stderr)
        with self.open_scratch() as directory:
            job = {"task": task, "options": options, "version": keras_nplm.__version__}
            Path(directory, "job.json").write_text(json.dumps(job), encoding="utf-8")
            try:
                pipeline = beam.Pipeline(options=self._options)
                numbered = [(number, json.dumps(_make_absolute(item))) for number, item in enumerate(items)]
                results = pipeline | beam.Create(numbered) | beam.Reshuffle() | beam.Map(run_item, directory)
                results | beam.io.WriteToText(f"{directory}/results")
                running = pipeline.run()
                state = running.wait_until_finish() or "DONE"
                if state != "DONE":
                    raise RuntimeError(f"it ended as {state}")
            except Exception as error:
                if errors.follows_error(error, KeyboardInterrupt):
                    raise
                lines = [type(error).__name__, *str(error).strip().splitlines()]  # before the last: a traceback
                raise RunError(
                    f"The Apache Beam pipeline failed on {self._name} ({lines[-1].rstrip('.')}). Finished shards are "
                    "kept. Fix: check --pipeline-options and the runner's log, then run the same command again."
                ) from error
            finally:
                if running is not None and not state:  # interrupted: a cluster would go on
                    with contextlib.suppress(Exception):
                        running.cancel()
            texts = [path.read_text(encoding="utf-8") for path in Path(directory).glob("results-*")]
            lines = "".join(texts).splitlines()
        if len(lines) != len(items):
            raise RunError(
                f"Results of the Apache Beam workers are absent from {self.directory}. Fix: choose an `--output` on a "
                "file system that this machine and all workers share."
            )
        ordered = sorted(map(json.loads, lines), key=operator.itemgetter("number"))
        for result in ordered:
            if "error" in result:
                raise getattr(errors, result["error"])(result["message"])
        return [result["value"] for result in ordered], [result["finished"] for result in ordered]


def run_item(numbered: tuple[int, str], directory: str) -> str:
    """Run the task of a job on one item, in a worker of Beam. Return the result, or the error, as a line of JSON.

    An error of the task is a result, so that Beam neither repeats the item nor prints a traceback.
    """
    number, item = numbered[0], json.loads(numbered[1])
    try:
        job = json.loads(Path(directory, "job.json").read_text(encoding="utf-8"))
        if job["version"] != keras_nplm.__version__:
            raise InputError(
                f"The Apache Beam workers must have keras-nplm {job['version']}. Received: {keras_nplm.__version__}. "
                "Fix: install the same version on all machines."
            )
        item["piece"]["ranges"] = [(str(fetch(path)), *places) for path, *places in item["piece"]["ranges"]]
        module, _, name = job["task"].partition(":")
        task = getattr(importlib.import_module(module), name)(**job["options"])
        return json.dumps({"number": number, "value": task(**item), "finished": task.finish()})
    except (InputError, RunError) as error:
        kind = "InputError" if isinstance(error, InputError) else "RunError"
        return json.dumps({"number": number, "error": kind, "message": str(error)})


def _make_absolute(item: dict) -> dict:
    """Make the paths of an item absolute or URLs: workers have different working directories and caches."""
    piece = dict(item["piece"])
    piece["ranges"] = [(_make_path_absolute(path), *places) for path, *places in piece["ranges"]]
    if piece.get("examples"):
        piece["examples"] = [_make_path_absolute(piece["examples"][0]), *piece["examples"][1:]]
    return item | {"piece": piece}


def _make_path_absolute(path: str) -> str:
    source = name_source(path)
    return source if is_remote(source) else os.path.abspath(source)
