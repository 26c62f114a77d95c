"""Count and encode chunks of text on a cluster: pipelines of Apache Beam for `keras-nplm prepare
--runner`.

Beam only distributes the tasks, so that the files are those of one machine, byte for byte. The
driver and all workers must have the same version of this package. They must see the output
directory under the same path, and the text under the same paths or as `gs://` and `s3://` URLs.
"""

import contextlib
import importlib
import io
import logging
import os
import pickle
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.data.processes import call_written
from keras_nplm.io.errors import InputError, RunError, was_caused_by
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import replace_file
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import display_url, fetch


class BeamRunner:
    """Runs tasks by a runner of Apache Beam, with pipeline options `NAME=VALUE` or `NAME`; see
    `run_chunks_by`.
    """

    def __init__(self, name: str, directory: str | os.PathLike, options: Sequence[str] = ()):
        logging.getLogger("apache_beam").setLevel(logging.ERROR)
        self._beam = import_extra("apache_beam", f"`--runner {name}`")
        self._name, self.directory = name, os.path.abspath(directory)
        words = [
            f"--runner={name}",
            "--default_sdk_harness_log_level=ERROR",
            *(f"--{option}" for option in options),
        ]
        messages = io.StringIO()
        try:
            with contextlib.redirect_stderr(messages):
                self._options = importlib.import_module(
                    "apache_beam.options.pipeline_options"
                ).PipelineOptions(words)
                self._options.get_all_options()
                self._beam.runners.runner.create_runner(name)
        except (SystemExit, ValueError, ImportError, AttributeError) as error:
            problem = (
                messages.getvalue().strip().rpartition("error: ")[2]
                if isinstance(error, SystemExit)
                else error
            )
            raise InputError(
                "`--runner` must be local or a runner of Apache Beam, and `--pipeline-options` "
                "its NAME=VALUE or NAME. "
                f"Received: {' '.join([name, *options])} ({problem}). Fix: see the documentation "
                "of the runner."
            ) from error

    @contextlib.contextmanager
    def open_scratch(self) -> Iterator[str]:
        """Yield a new directory that all workers see, and remove it at the end of the block."""
        # a name of `io.files.is_temporary`
        directory = os.path.join(self.directory, f".beam.nplm-{uuid.uuid4().int}")
        os.makedirs(directory)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def map(self, function: Callable, items: Sequence[tuple]) -> list:
        """Call a function with the values of each item (chunk, …), as `map_chunks` does."""
        if not items:
            return []
        import cloudpickle

        beam = self._beam
        print(f"Chunks of text on {self._name}: {len(items)}", file=sys.stderr)
        # a different working directory or cache of a worker must not matter
        named = [(chunk.with_paths(_make_absolute), *values) for chunk, *values in items]
        with self.open_scratch() as directory:
            Path(directory, "function").write_bytes(cloudpickle.dumps(function))
            pipeline = beam.Pipeline(options=self._options)
            numbered = [(number, pickle.dumps(item)) for number, item in enumerate(named)]
            calls = pipeline | beam.Create(numbered) | beam.Reshuffle()
            calls | beam.Map(call_item, directory)
            self._wait(pipeline)
            try:
                results = [
                    pickle.loads(_name_result(directory, number).read_bytes())
                    for number in range(len(items))
                ]
            except FileNotFoundError as error:
                raise RunError(
                    f"Results of the Apache Beam workers are absent from {self.directory}. Fix: "
                    "choose an `--output` on a file system that this machine and all workers share."
                ) from error
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def _wait(self, pipeline: Any) -> None:
        """Run a pipeline to its end."""
        try:
            running = pipeline.run()
            try:
                state = running.wait_until_finish() or "DONE"
            except BaseException:  # after an interruption a cluster would go on
                with contextlib.suppress(Exception):
                    running.cancel()
                raise
            if state != "DONE":
                raise RuntimeError(f"it ended as {state}")
        except Exception as error:
            if was_caused_by(error, KeyboardInterrupt):
                raise
            # before the last: a traceback
            lines = [type(error).__name__, *str(error).strip().splitlines()]
            raise RunError(
                f"The Apache Beam pipeline failed on {self._name} ({lines[-1].rstrip('.')}). "
                "Finished shards are kept. Fix: check --pipeline-options and the runner's log, "
                "then run the same command again."
            ) from error


def call_item(numbered: tuple[int, bytes], directory: str) -> None:
    """Call the function with an item, in a worker of Beam, and write the result or the error."""
    number, item = numbered
    result: Any
    try:
        chunk, *values = pickle.loads(item)
        local = chunk.with_paths(lambda path: str(fetch(path)))
        result = call_written(Path(directory, "function"), (local, *values))
    except (InputError, RunError) as error:
        result = error
    with replace_file(_name_result(directory, number)) as temporary:
        temporary.write_bytes(pickle.dumps(result))


def _name_result(directory: str, number: int) -> Path:
    return Path(directory, f"{number}.result")


def _make_absolute(path: str) -> str:
    source = display_url(path)
    return source if is_remote(source) else os.path.abspath(source)
