"""Contenders take turns; their rates, ratios, shares of the peak and latencies."""

import time

import pytest

from keras_nplm.experiments.benchmark import contenders
from keras_nplm.experiments.benchmark.contenders import Contender, measure_group, read_cpu_seconds, time_requests


@pytest.fixture(autouse=True)
def no_garbage_collection(monkeypatch):
    """Leave out the collections between turns, which take most of the time of these tests."""
    monkeypatch.setattr(contenders.gc, "collect", lambda: 0)


def test_contenders_take_turns_and_are_compared_with_peers(monkeypatch):
    clock, turns = [0.0], []
    monkeypatch.setattr(contenders, "read_cpu_seconds", lambda: clock[0])

    def build_work(name, seconds):
        def work():
            turns.append(name)
            clock[0] += seconds[turns.count(name) - 1]
            return 100

        return work

    ours = Contender("ours", build_work("ours", [9, 1, 2, 4]))
    theirs = Contender("theirs", build_work("theirs", [9, 4, 4, 4]), peer=True)
    rows = measure_group([ours, theirs], rounds=3)
    assert turns == ["ours", "theirs"] * 4  # the first round is not measured
    assert rows[0]["rate"] == 50 and (rows[0]["low"], rows[0]["high"]) == (25, 100)
    assert rows[0]["ratio_to"] == {"theirs": [2, 1, 4]} and "ratio_to" not in rows[1]


def test_share_of_peak_counts_operations(monkeypatch):
    monkeypatch.setattr(contenders, "multiply_matrices", lambda: lambda: 1_000_000)
    ticks = iter(range(100))
    monkeypatch.setattr(contenders, "read_cpu_seconds", lambda: float(next(ticks)))
    (row,) = measure_group([Contender("ours", lambda: 100, flops=2_500)], rounds=1)
    assert row["share_of_peak"] == 0.25


def test_matrix_products_count_their_operations():
    assert contenders.multiply_matrices(size=8, times=2)() == 2 * 2 * 8**3


def test_requests_are_timed_except_in_the_first_round(monkeypatch):
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 64)
    clock, requests = [0.0], []
    monkeypatch.setattr(contenders.time, "perf_counter", lambda: clock[0])

    def send():
        requests.append(clock[0])
        clock[0] += 9.0 if len(requests) == 5 else 0.001  # a slow request in the round that is not measured

    (row,) = measure_group([time_requests("ours", send, batch=2)], rounds=1)
    assert len(requests) == 64
    assert row["milliseconds"] == [pytest.approx(1.0), pytest.approx(1.0)]


def test_cpu_seconds_do_not_count_waiting():
    began = read_cpu_seconds()
    time.sleep(0.2)
    assert read_cpu_seconds() - began < 0.1
