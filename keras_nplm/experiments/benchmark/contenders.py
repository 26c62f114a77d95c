"""Contenders that take turns: work in this process, in a process of its own, and whole commands.

A peer runs in its own process, so that a crash of its libraries ends one row of the table and not
the benchmark. It works while its parent waits: a core is never shared.
"""

import contextlib
import dataclasses
import gc
import importlib
import importlib.util
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from keras_nplm.io.errors import RunError, summarize_error

# does a piece of work; returns its number of n-grams, or all figures of a round
Work = Callable[[], int | dict]
MIN_REQUESTS = 20
CONTEXTS_PER_ROUND = 1000
_PEAK = "matrix product"


class PeerError(RunError):
    """A contender cannot be measured; the message says how it failed."""


def is_installed(name: str) -> bool:
    """Return whether a Python package or a program is installed.

    It is not imported: this may fail, or crash.
    """
    return importlib.util.find_spec(name) is not None or shutil.which(name) is not None


@dataclasses.dataclass
class Contender:
    """Work that is timed in turns with the other contenders of its group."""

    name: str  # in the table
    work: Work | None
    # floating-point operations of one n-gram; 0: the share of the peak is not reported
    flops: float = 0
    peer: bool = False  # whether the other contenders of the group are compared with it
    clock: Callable[[], float] = time.process_time

    def run_round(self) -> dict:
        """Do the work once. Return `ngrams`, `seconds` and other figures."""
        gc.collect()
        began = self.clock()
        done = self.work()
        seconds = max(self.clock() - began, 1e-9)
        return {"seconds": seconds} | (done if isinstance(done, dict) else {"ngrams": done})

    def close(self) -> None:
        """End its process."""


class Process(Contender):
    """A contender that `"module:function"` builds in its own process, if the packages that it needs
    are installed.
    """

    def __init__(
        self, name: str, build: str, arguments: dict, needs: Sequence[str] = (), **options: Any
    ):
        super().__init__(name, None, **options)
        self._job = (build, arguments)
        self._needs = needs
        self.child = None

    def run_round(self) -> dict:
        if absent := [name for name in self._needs if not is_installed(name)]:
            raise PeerError(f"{' and '.join(absent)} not installed")
        if self.child is None:
            self._errors = tempfile.NamedTemporaryFile()  # noqa: SIM115, `close` closes it
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self.child = context.Process(
                target=_serve, args=(theirs, self._errors.name, *self._job), daemon=True
            )
            self.child.start()
            theirs.close()
        try:
            # its answer, or the end of the file, says why
            with contextlib.suppress(BrokenPipeError):
                self._connection.send(None)
            answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self.child.join()
            status = self.child.exitcode
            line = _quote_last_line(self._errors.read())
            raise PeerError(
                f"killed by {signal.Signals(-status).name}"
                if status < 0
                else f"exit status {status}{line}"
            ) from None
        if isinstance(answer, str):
            raise PeerError(answer)
        return answer

    def close(self) -> None:
        if self.child:
            self.child.kill()
            self.child.join()
            self._connection.close()
            self._errors.close()


def _serve(connection: Connection, errors: str, build: str, arguments: dict) -> None:
    """Build a contender in this process.

    Answer each message with the figures of a round, or with an error.
    """
    # a killed benchmark leaves no peer on the core of the next
    threading.Thread(
        target=lambda: (multiprocessing.parent_process().join(), os._exit(1)), daemon=True
    ).start()
    for stream in (1, 2):  # what a library prints is no result of the command
        os.dup2(os.open(errors, os.O_WRONLY | os.O_APPEND), stream)
    try:
        module, _, function = build.partition(":")
        contender = getattr(importlib.import_module(module), function)(**arguments)
        while True:
            connection.recv()
            connection.send(contender.run_round())
    except (EOFError, KeyboardInterrupt):
        pass  # the benchmark ended
    except Exception as error:  # whatever a library raises is a row of the table
        kind = "" if isinstance(error, PeerError) else f"{type(error).__name__}: "
        connection.send(f"{kind}{summarize_error(error)}")


def _quote_last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""


def build_command(name: str, words: list[str], tokens: int, directory: str) -> Contender:
    """Return a command that reads some tokens; `{results}` stands for a new directory for its
    results.
    """

    def work() -> dict:
        with tempfile.TemporaryDirectory(dir=directory) as results:
            command = [word.replace("{results}", results) for word in words]
            run = subprocess.run(command, capture_output=True, check=False)
        if run.returncode:
            raise PeerError(
                f"{name} failed with exit status {run.returncode}{_quote_last_line(run.stderr)}"
            )
        # of the largest process; this one imports little, as a new process starts with the memory
        # of its parent
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )
        return {"ngrams": tokens, "peak_memory": peak}

    return Contender(name, work, clock=lambda: sum(os.times()[2:4]))  # of its processes


def time_requests(
    name: str, send: Callable[[], object], batch: int = 1, peer: bool = False
) -> Contender:

    def work() -> dict:
        durations = []
        for _ in range(max(MIN_REQUESTS, CONTEXTS_PER_ROUND // batch)):
            began = time.perf_counter()
            send()
            durations.append(time.perf_counter() - began)
        return {"ngrams": len(durations) * batch, "request_seconds": durations}

    return Contender(name, work, peer=peer)


def measure_group(group: list[Contender], rounds: int, warm_up: int = 1) -> list[dict]:
    """Return the rows of contenders that take turns; one whose process fails has no further
    turn.
    """
    if any(contender.flops for contender in group):
        group = [*group, Contender(_PEAK, multiply_matrices())]
    measured = {contender.name: [] for contender in group}
    failures = {}
    with contextlib.ExitStack() as stack:
        for contender in group:
            stack.callback(contender.close)
        for number in range(1 - warm_up, rounds + 1):
            for contender in group:
                if contender.name not in failures:
                    try:
                        measured[contender.name].append(contender.run_round())
                    except PeerError as error:
                        failures[contender.name] = str(error)
                        print(f"{contender.name}: {error}", file=sys.stderr)
            print(f"{group[0].name}: round {number} of {rounds}", file=sys.stderr)
    kept = {name: rounds[warm_up:] for name, rounds in measured.items()}
    rates = {
        name: np.array([each["ngrams"] / each["seconds"] for each in rounds])
        for name, rounds in kept.items()
    }
    peers = [
        contender.name for contender in group if contender.peer and contender.name not in failures
    ]
    rows = []
    for contender in (contender for contender in group if contender.name != _PEAK):
        name = contender.name
        own = rates[contender.name]
        if name in failures:
            rows.append({"name": name, "failure": failures[name]})
            continue
        row = {"name": name} | dict(zip(("rate", "low", "high"), _summarise(own), strict=True))
        if contender.flops:
            row["share_of_peak"] = contender.flops * _summarise(own / rates[_PEAK])[0]
        if not contender.peer:
            row["ratio_to"] = {peer: _summarise(own / rates[peer]) for peer in peers}
        if durations := [
            seconds for each in kept[name] for seconds in each.get("request_seconds", ())
        ]:
            row["milliseconds"] = [
                1000 * float(value) for value in np.percentile(durations, [50, 99])
            ]
        if "peak_memory" in kept[name][0]:
            row["cpu_seconds"] = statistics.median(each["seconds"] for each in kept[name])
            row["peak_memory"] = max(each["peak_memory"] for each in kept[name])
        rows.append(row)
    return rows


def _summarise(rates: np.ndarray) -> list[float]:
    return [float(np.median(rates)), float(rates.min()), float(rates.max())]


def multiply_matrices(size: int = 2048, times: int = 3) -> Work:
    """Return the work of multiplying large float32 matrices, which reaches the peak; it counts
    flops, not n-grams.
    """
    import tensorflow as tf  # here: the processes of peers import this module

    matrix = tf.random.stateless_normal([size, size], seed=[0, 0])
    return lambda: len([tf.matmul(matrix, matrix).numpy() for _ in range(times)]) * 2 * size**3
