"""Contenders that take turns: work in this process, in a process of its own, and whole commands.

A peer runs in its own process, so that a crash of its libraries ends one row of the table and not
the benchmark. It works while its parent waits: a core is never shared.
"""

import contextlib
import dataclasses
import gc
import importlib
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.io.errors import RunError, summarize_error
from keras_nplm.io.memory import keep_freed_memory
from tests.benchmarks.report import SPEED_COLUMNS, Column, Report, Settings

Figures = dict[str, Any]  # of a round: `ngrams`, `seconds` and others
Work = Callable[[], int | Figures]  # returns its number of n-grams, or more figures of a round
MIN_REQUESTS = 20
CONTEXTS_PER_ROUND = 1000
_PEAK = "matrix product"


def has_gpu() -> bool:
    """Return whether an NVIDIA GPU may be used. Peers ask it too, and import no TensorFlow."""
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return Path("/dev/nvidiactl").exists() and not is_hidden


def read_clock() -> float:
    """Return CPU seconds; with a GPU wall time, as the CPU does not work while the GPU does."""
    return time.perf_counter() if has_gpu() else time.process_time()


def count_steps(steps: int) -> int:
    """Return the steps of training of a turn: on a GPU more than on a core, or starts dominate."""
    return 5 * steps if has_gpu() else steps


@dataclasses.dataclass
class Contender:
    """Work that is timed in turns with the other contenders of its group."""

    name: str  # in the table
    work: Work
    # floating-point operations of one n-gram; 0: the share of the peak is not reported
    flops: float = 0
    peer: bool = False  # whether the other contenders of the group are compared with it
    clock: Callable[[], float] = read_clock

    def run_round(self) -> Figures:
        """Do the work once. Return `ngrams`, `seconds` and other figures."""
        gc.collect()
        began = self.clock()
        done = self.work()
        seconds = max(self.clock() - began, 1e-9)
        return {"seconds": seconds, **({"ngrams": done} if isinstance(done, int) else done)}

    def close(self) -> None:
        """End its process."""


class Process(Contender):
    """A contender that `"module:function"` builds in its own process. The figures of its rounds are
    those of that contender.

    Raises:
        RunError: in a round. The libraries of the peer are not installed, or it has failed.
    """

    def __init__(
        self, name: str, build: str, arguments: dict[str, Any], flops: float = 0, peer: bool = False
    ):
        super().__init__(name, self._ask, flops, peer)
        self._task = build, arguments
        spawn = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, spawn, keep_freed_memory)  # as our training does

    def _ask(self) -> Figures:
        """Let the process do its work once, and return its figures."""
        try:
            return self._pool.submit(_run_round, *self._task).result()
        except BrokenProcessPool:
            raise RunError("its process ended: see its messages") from None
        except Exception as error:  # whatever a library raises is a row of the table
            raise RunError(f"{type(error).__name__}: {summarize_error(error)}") from error

    def close(self) -> None:
        self._pool.shutdown()


_built: list[Contender] = []  # in the process of a contender


def _run_round(build: str, arguments: dict[str, Any]) -> Figures:
    """Build the contender of this process once, and return the figures of a round."""
    if not _built:
        module, _, function = build.partition(":")
        _built.append(getattr(importlib.import_module(module), function)(**arguments))
    return _built[0].run_round()


def build_command(words: list[str], tokens: int, directory: str) -> Contender:
    """Return a command that reads some tokens; `{results}` stands for a new directory for its
    results.
    """

    def work() -> Figures:
        with tempfile.TemporaryDirectory(dir=directory) as results:
            command = [word.replace("{results}", results) for word in words]
            began = time.perf_counter()
            run = subprocess.run(command, capture_output=True, check=False)
            wall_seconds = time.perf_counter() - began
        if run.returncode:
            last = run.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            raise RunError(f"exit status {run.returncode}: {last}")
        return {
            "ngrams": tokens,
            "peak_memory": _measure_peak_memory(),
            "wall_seconds": wall_seconds,
        }

    return Contender(words[0], work, clock=_measure_child_seconds)


def _measure_child_seconds() -> float:
    """Return the CPU seconds of the processes that this one has started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _measure_peak_memory() -> int:
    """Return the bytes of the largest process that this one has started.

    A new process starts with the memory of its parent: this one imports little.
    """
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def time_requests(
    name: str, send: Callable[[], object], batch: int = 1, peer: bool = False
) -> Contender:
    """Return requests for a number of contexts each, whose durations are figures of the round."""

    def work() -> Figures:
        durations = []
        for _ in range(max(MIN_REQUESTS, CONTEXTS_PER_ROUND // batch)):
            began = time.perf_counter()
            send()
            durations.append(time.perf_counter() - began)
        return {"ngrams": len(durations) * batch, "request_seconds": durations}

    return Contender(name, work, peer=peer)


def declare_speed(
    text: str,
    build_groups: Callable[[Settings], Iterable[list[Contender]]],
    columns: Sequence[Column] = SPEED_COLUMNS,
    warm_up: int = 1,
) -> Report:
    """Return a report on groups of contenders, which take turns within their group."""

    def measure(settings: Settings) -> dict[str, list[dict]]:
        rows = []
        for group in build_groups(settings):
            rows += measure_group(group, settings.rounds, warm_up)
        return {"rows": rows}

    return Report(text, columns, measure)


def measure_group(group: list[Contender], rounds: int, warm_up: int = 1) -> list[dict]:
    """Return the rows of contenders that take turns; one whose process fails has no further
    turn.
    """
    if any(contender.flops for contender in group):
        group = [*group, Contender(_PEAK, multiply_matrices())]
    measured, failures = _take_turns(group, rounds, warm_up)
    rates = {name: _compute_rates(figures) for name, figures in measured.items()}
    peers = [
        contender.name for contender in group if contender.peer and contender.name not in failures
    ]
    rows = []
    for contender in group:
        name = contender.name
        if name in failures:
            rows.append({"name": name, "failure": failures[name]})
        elif name != _PEAK:
            rows.append(_build_row(contender, measured[name], rates, peers))
    return rows


def _take_turns(
    group: list[Contender], rounds: int, warm_up: int
) -> tuple[dict[str, list[Figures]], dict[str, str]]:
    """Return the figures of the rounds after the warm-up, and how contenders failed, by name."""
    measured: dict[str, list[Figures]] = {contender.name: [] for contender in group}
    failures: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for contender in group:
            stack.callback(contender.close)
        for number in range(1 - warm_up, rounds + 1):
            for contender in group:
                if contender.name in failures:
                    continue
                try:
                    measured[contender.name].append(contender.run_round())
                except (ImportError, RunError) as error:
                    failures[contender.name] = str(error)
                    print(f"{contender.name}: {error}", file=sys.stderr)
            print(f"{group[0].name}: round {number} of {rounds}", file=sys.stderr)
    return {name: figures[warm_up:] for name, figures in measured.items()}, failures


def _compute_rates(figures: list[Figures]) -> np.ndarray:
    return np.array([each["ngrams"] / each["seconds"] for each in figures])


def _build_row(
    contender: Contender, figures: list[Figures], rates: dict[str, np.ndarray], peers: list[str]
) -> dict:
    """Return the row of a contender: its rate, and its ratios to the peers of its group."""
    own = rates[contender.name]
    median, *extremes = _summarise(own)
    row: dict[str, Any] = {"name": contender.name, "rate": median, "range": extremes}
    if contender.flops:
        row["share_of_peak"] = contender.flops * _summarise(own / rates[_PEAK])[0]
    if not contender.peer:
        row["ratio_to"] = {peer: _summarise(own / rates[peer]) for peer in peers}
    durations = [seconds for each in figures for seconds in each.get("request_seconds", ())]
    if durations:
        p50, p99 = np.percentile(durations, [50, 99])
        row["milliseconds"] = [1000 * float(p50), 1000 * float(p99)]
    if "peak_memory" in figures[0]:
        row["cpu_seconds"] = statistics.median(each["seconds"] for each in figures)
        row["wall_seconds"] = statistics.median(each["wall_seconds"] for each in figures)
        row["peak_memory"] = max(each["peak_memory"] for each in figures)
    return row


def _summarise(rates: np.ndarray) -> list[float]:
    """Return the median, the lowest and the highest rate."""
    return [float(np.median(rates)), float(rates.min()), float(rates.max())]


def multiply_matrices(times: int = 3) -> Work:
    """Return the work of multiplying large float32 matrices, which reaches the peak; it counts
    flops, not n-grams.
    """
    import tensorflow as tf  # here: the processes of peers import this module

    size = 16384 if has_gpu() else 2048
    matrix = tf.random.stateless_normal([size, size], seed=[0, 0])

    def work() -> int:
        for _ in range(times):
            tf.matmul(matrix, matrix)[0, 0].numpy()  # waits; a whole product is slow to copy
        return times * 2 * size**3

    return work
