"""The benchmark `workers` compares two workers with one."""

import pytest

from keras_nplm.experiments.benchmark import workers


def test_two_workers_are_compared_with_twice_one(monkeypatch):
    monkeypatch.setattr(workers, "BATCH_SIZES", {"full": 64})
    rates, calls = iter([100.0, 160.0, 110.0, 154.0]), []
    monkeypatch.setattr(workers, "measure_rate", lambda *arguments: calls.append(arguments) or next(rates))
    two, one = workers.measure(None, rounds=2, tokens=0)
    assert calls == [(1, "full"), (2, "full")] * 2
    assert one["rate"] == 105 and two["rate"] == 157
    assert two["ratio_to"] == {"twice full, 1 worker, 1 core": [0.75, 0.7, 0.8]}


@pytest.mark.long
def test_a_worker_trains():
    assert workers.measure_rate(1, "nce") > 0
