"""Contenders that take turns: work in this process, in a process of its own, and whole commands.

A peer runs in its own process, so that a crash of its libraries ends one row of the table and not the benchmark. The
process reads one JSON value a line: what builds the contender, then requests for rounds. It answers each with a line.
It works while its parent is blocked: a core is never shared. No process outlives its parent.
"""

import contextlib
import ctypes
import dataclasses
import functools
import gc
import importlib.util
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from keras_nplm.io.errors import RunError, summarize_error

Work = Callable[[], int]  # does a piece of work and returns its number of n-grams
MIN_REQUESTS, CONTEXTS_PER_ROUND = 20, 1000
_PEAK = "matrix product"
_PR_SET_PDEATHSIG = 1


class PeerError(RunError):
    """A contender in its own process cannot be measured; the message says how it failed."""


def is_installed(name: str) -> bool:
    """Return whether a Python package or a program is installed. It is not imported: this may fail, or crash."""
    return importlib.util.find_spec(name) is not None or shutil.which(name) is not None


def _read_child_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


@dataclasses.dataclass
class Contender:
    """Work that is timed in turns with the other contenders of its group."""

    name: str  # in the table
    work: Work | None
    flops: float = 0  # floating-point operations of one n-gram; 0: the share of the peak is not reported
    peer: bool = False  # whether the other contenders of the group are compared with it
    clock: Callable[[], float] = time.process_time
    notes: dict = dataclasses.field(default_factory=dict)  # other figures of a round, which the work writes

    def run_round(self) -> dict:
        """Do the work once. Return `ngrams`, `seconds` and the notes."""
        gc.collect()
        self.notes.clear()
        began = self.clock()
        ngrams = self.work()
        return {"ngrams": ngrams, "seconds": max(self.clock() - began, 1e-9), **self.notes}

    def close(self) -> None:
        """Free what the contender holds beside memory."""


class Process(Contender):
    """A contender that `"module:function"` builds in its own process, if the packages that it needs are installed."""

    def __init__(
        self, name: str, build: str, arguments: dict, needs: Sequence[str] = (), progress: bool = False, **options: Any
    ):
        super().__init__(name, None, **options)
        self._job, self._needs, self._shows_progress = {"build": build, "arguments": arguments}, needs, progress
        self.child = None

    def run_round(self) -> dict:
        """Let the process do the work once, by its own clock. Raise a `PeerError` if it cannot."""
        if absent := [name for name in self._needs if not is_installed(name)]:
            raise PeerError(f"{' and '.join(absent)} not installed")
        if self.child is None:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115, `close` closes it
            pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
            errors = None if self._shows_progress else self._errors
            self.child = subprocess.Popen([sys.executable, "-m", __name__, str(os.getpid())], stderr=errors, **pipes)
            self._ask(self._job)
        return self._ask({})

    def close(self) -> None:
        """Kill the process."""
        if self.child:
            self.child.kill()
            self.child.wait()
            for pipe in (self.child.stdin, self.child.stdout, self._errors):
                with contextlib.suppress(OSError):  # a request that the process did not read
                    pipe.close()

    def _ask(self, request: dict) -> dict:
        line = ""
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self.child.stdin, flush=True)
            line = self.child.stdout.readline()
        if not line.endswith("\n"):
            status = self.child.wait()
            self._errors.seek(0)
            end = f"exit status {status}{_quote_last_line(self._errors.read())}"
            if status < 0:
                end = f"killed by {signal.Signals(-status).name}" + ", perhaps out of memory" * (status == -9)
            raise PeerError(end)
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer


def _quote_last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return f": {lines[-1][:300]}" if lines else ""


def build_command(name: str, words: list[str], tokens: int, directory: str) -> Contender:
    """Return a command that reads some tokens; `{results}` stands for a new directory for its results."""

    def work() -> int:
        with tempfile.TemporaryDirectory(dir=directory) as results:
            began, follow = time.perf_counter(), functools.partial(end_with_parent, os.getpid())
            command = [word.replace("{results}", results) for word in words]
            run = subprocess.run(command, capture_output=True, preexec_fn=follow, check=False)
            contender.notes["wall_seconds"] = time.perf_counter() - began
        if run.returncode:
            raise PeerError(f"{name} failed with exit status {run.returncode}{_quote_last_line(run.stderr)}")
        # of the largest process; this one imports little, as a new process starts with the memory of its parent
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        contender.notes["peak_memory"] = peak
        return tokens

    contender = Contender(name, work, clock=_read_child_seconds)
    return contender


def time_requests(name: str, send: Callable[[], object], batch: int = 1, peer: bool = False) -> Contender:
    """Return a contender that sends requests of some contexts, one after another, and notes their durations."""

    def work() -> int:
        durations = contender.notes["request_seconds"] = []
        for _ in range(max(MIN_REQUESTS, CONTEXTS_PER_ROUND // batch)):
            began = time.perf_counter()
            send()
            durations.append(time.perf_counter() - began)
        return len(durations) * batch

    contender = Contender(name, work, peer=peer)
    return contender


def measure_groups(groups: Iterable[list[Contender]], rounds: int) -> list[dict]:
    """Return the rows of all groups; see `measure_group`."""
    return [row for group in groups for row in measure_group(group, rounds)]


def measure_group(group: list[Contender], rounds: int, warm_up: int = 1, unit: str = "n-grams/s") -> list[dict]:
    """Return the rows of contenders that take turns, after rounds that are not measured.

    A contender whose process fails has no further turn, and the others are not compared with it.
    """
    if any(contender.flops for contender in group):
        group = [*group, Contender(_PEAK, multiply_matrices())]
    measured, failures = {contender.name: [] for contender in group}, {}
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
    measured = {name: answers[warm_up:] for name, answers in measured.items()}
    rates = {name: [answer["ngrams"] / answer["seconds"] for answer in measured[name]] for name in measured}
    rows = []
    for contender in group:
        row, own = {"name": contender.name, "unit": unit}, rates[contender.name]
        if contender.name in failures:
            row["failure"] = failures[contender.name]
        else:
            row |= dict(zip(("rate", "low", "high"), _summarise(own), strict=True)) | _summarise_notes(
                measured[contender.name]
            )
            if contender.flops:
                row["share_of_peak"] = contender.flops * _summarise(own, rates[_PEAK])[0]
            if not contender.peer:
                peers = [peer.name for peer in group if peer.peer and peer.name not in failures]
                row["ratio_to"] = {peer: _summarise(own, rates[peer]) for peer in peers}
        rows.append(row)
    return [row for row in rows if row["name"] != _PEAK]


def _summarise(rates: list[float], peer_rates: Sequence[float] = ()) -> list[float]:
    """Return the median, the lowest and the highest rate, or of the ratios to the rates of a peer."""
    ratios = [rate / peer for rate, peer in zip(rates, peer_rates, strict=True)] if peer_rates else rates
    return [statistics.median(ratios), min(ratios), max(ratios)]


def _summarise_notes(rounds: list[dict]) -> dict:
    if durations := [seconds for answer in rounds for seconds in answer.get("request_seconds", ())]:
        return {"milliseconds": [1000 * float(value) for value in np.percentile(durations, [50, 99])]}
    if "wall_seconds" not in rounds[0]:
        return {}
    return {
        "cpu_seconds": statistics.median(answer["seconds"] for answer in rounds),
        "wall_rate": statistics.median(answer["ngrams"] / answer["wall_seconds"] for answer in rounds),
        "peak_memory": max(answer["peak_memory"] for answer in rounds),
    }


def multiply_matrices(size: int = 2048, times: int = 3) -> Work:
    """Return the work of multiplying large float32 matrices, which reaches the peak; it counts flops, not n-grams."""
    import tensorflow as tf  # here: the processes of peers import this module

    matrix = tf.random.stateless_normal([size, size], seed=[0, 0])
    return lambda: len([tf.matmul(matrix, matrix).numpy() for _ in range(times)]) * 2 * size**3


def end_with_parent(parent: int) -> None:
    """Let the kernel (Linux) kill this process when its parent ends. Ctrl-C is left to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        os._exit(1)


def main(parent: str) -> None:
    """Build a contender and run rounds until the requests end. Print one answer a line."""
    end_with_parent(int(parent))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        job = json.loads(sys.stdin.readline())
        module, _, function = job["build"].partition(":")
        contender = getattr(importlib.import_module(module), function)(**job["arguments"])
        print("{}", file=answers, flush=True)
        for _ in sys.stdin:
            print(json.dumps(contender.run_round()), file=answers, flush=True)
    except Exception as error:  # whatever a library raises is a row of the table
        kind = "" if type(error).__name__ == "PeerError" else f"{type(error).__name__}: "
        print(json.dumps({"error": f"{kind}{summarize_error(error)}"}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
