"""Timing of contenders in turns: rates per CPU second, ratios to peers, share of the processor's peak, latency."""

import contextlib
import dataclasses
import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable

import numpy as np

from keras_nplm.io.errors import RunError

Work = Callable[[], int]  # does a piece of work and returns its number of n-grams
MIN_REQUESTS, CONTEXTS_PER_ROUND = 20, 1000
_PEAK = "matrix product"
_UNIT = "n-grams/s"


class PeerError(RunError):
    """A peer cannot be measured; the message says how it failed."""


@dataclasses.dataclass
class Contender:
    """Work that is timed in turns with the other contenders of its group.

    Args:
        name: its name in the table.
        work: the work; it returns its number of n-grams.
        flops: floating-point operations of one n-gram. 0: the share of the peak is not reported.
        peer: whether the other contenders of the group are compared with it.
        request_seconds: the duration of each request, which `work` appends to, if the work is a series of requests.
        clock: returns the CPU seconds that the work has used. Default: `read_cpu_seconds`.
    """

    name: str
    work: Work
    flops: float = 0
    peer: bool = False
    request_seconds: list[float] = dataclasses.field(default_factory=list)
    clock: Callable[[], float] | None = None

    def run_round(self) -> float:
        """Do the work once and return its n-grams per CPU second.

        Raises:
            PeerError: the work is done by a peer that failed.
        """
        gc.collect()
        clock = self.clock or read_cpu_seconds
        began = clock()
        ngrams = self.work()
        return ngrams / max(clock() - began, 1e-9)

    def close(self) -> None:
        """Free what the contender holds beside memory."""


def measure_groups(groups: Iterable[list[Contender]], rounds: int) -> list[dict]:
    """Return the rows of all groups; see `measure_group`."""
    return [row for group in groups for row in measure_group(group, rounds)]


def measure_group(group: list[Contender], rounds: int) -> list[dict]:
    """Time the contenders of a group in turns, after one round that is not measured.

    A peer that fails has no further turn, and the others are not compared with it.

    Args:
        group: the contenders.
        rounds: number of measured rounds.

    Returns:
        a row for each contender; see `keras_nplm.experiments.benchmark.run_benchmarks`.
    """
    if any(contender.flops for contender in group):
        group = [*group, Contender(_PEAK, multiply_matrices())]
    rates, failures = {contender.name: [] for contender in group}, {}
    with contextlib.ExitStack() as stack:
        for contender in group:
            stack.callback(contender.close)
        for number in range(rounds + 1):
            for contender in group:
                if contender.name not in failures:
                    try:
                        rate = contender.run_round()
                    except PeerError as error:
                        failures[contender.name] = str(error)
                        print(f"{contender.name} failed: {error}", file=sys.stderr)
                        continue
                    if number == 0:
                        contender.request_seconds.clear()
                    else:
                        rates[contender.name].append(rate)
            print(f"{group[0].name}: round {number} of {rounds}", file=sys.stderr)
    peers = [contender.name for contender in group if contender.peer and contender.name not in failures]
    return [
        {"name": contender.name, "unit": _UNIT, "failure": failures[contender.name]}
        if contender.name in failures
        else _build_row(contender, rates, peers)
        for contender in group
        if contender.name != _PEAK
    ]


def summarise_rates(name: str, rates: list[float], unit: str = _UNIT) -> dict:
    """Return the row of a table with the median, the lowest and the highest rate."""
    return {"name": name, "unit": unit, "rate": statistics.median(rates), "low": min(rates), "high": max(rates)}


def summarise_ratios(rates: list[float], peer_rates: list[float]) -> list[float]:
    """Return the median, the lowest and the highest ratio of two rates measured in the same rounds."""
    ratios = [rate / peer_rate for rate, peer_rate in zip(rates, peer_rates, strict=True)]
    return [statistics.median(ratios), min(ratios), max(ratios)]


def _build_row(contender: Contender, rates: dict[str, list[float]], peers: list[str]) -> dict:
    own = rates[contender.name]
    row = summarise_rates(contender.name, own)
    if contender.flops:
        row["share_of_peak"] = contender.flops * summarise_ratios(own, rates[_PEAK])[0]
    if contender.request_seconds:
        row["milliseconds"] = [1000 * float(value) for value in np.percentile(contender.request_seconds, [50, 99])]
    if not contender.peer:
        row["ratio_to"] = {peer: summarise_ratios(own, rates[peer]) for peer in peers}
    return row


def time_requests(name: str, send: Callable[[], object], batch: int = 1, peer: bool = False) -> Contender:
    """Return a contender that sends requests one after another and records the duration of each.

    Args:
        name: its name in the table.
        send: sends one request and waits for the response.
        batch: contexts in a request.
        peer: whether other contenders are compared with it.
    """
    durations = []

    def work() -> int:
        number = max(MIN_REQUESTS, CONTEXTS_PER_ROUND // batch)
        for _ in range(number):
            began = time.perf_counter()
            send()
            durations.append(time.perf_counter() - began)
        return number * batch

    return Contender(name, work, peer=peer, request_seconds=durations)


def multiply_matrices(size: int = 2048, times: int = 3) -> Work:
    """Return the work of multiplying large float32 matrices, which reaches the peak; it counts flops, not n-grams."""
    import tensorflow as tf  # here: the processes of peers import this module

    matrix = tf.random.stateless_normal([size, size], seed=[0, 0])

    def work() -> int:
        for _ in range(times):
            tf.matmul(matrix, matrix).numpy()
        return times * 2 * size**3

    return work


def read_cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
