"""The benchmark: it measures real work, takes turns, and asks the peers that it finds."""

import json
import os
import stat
import time

import numpy as np
import pytest

import keras_nplm.experiments.benchmark as benchmark
import keras_nplm.experiments.benchmark.corpora as corpus_benchmark
import keras_nplm.experiments.benchmark.peers as peers
import keras_nplm.experiments.benchmark.workers as worker_benchmark
from keras_nplm.cli.main import main
from keras_nplm.experiments.tables import benchmark_table
from keras_nplm.io.errors import RunError


def test_rates_and_ratios_are_those_of_the_work(monkeypatch):
    clock, turns = [0.0], []
    monkeypatch.setattr(benchmark, "_cpu_seconds", lambda: clock[0])

    def work(name, seconds):
        def do():
            turns.append(name)
            clock[0] += seconds[len([turn for turn in turns if turn == name]) - 1]
            return 100

        return do

    ours = benchmark.Contender("ours", work("ours", [9, 1, 2, 4]))
    theirs = benchmark.Contender("theirs", work("theirs", [9, 4, 4, 4]), peer=True)
    rows = benchmark._measure([ours, theirs], rounds=3)
    assert turns == ["ours", "theirs"] * 4  # in turns, the first unmeasured
    assert rows[0]["rate"] == 50 and (rows[0]["low"], rows[0]["high"]) == (25, 100)
    assert rows[0]["ratio_to"] == {"theirs": [2, 1, 4]} and "ratio_to" not in rows[1]
    table = benchmark_table({"rows": [{"benchmark": "training"} | row for row in rows]})
    assert "| training | ours | 50 | 25 to 100 |  |  | 2.00 (1.00 to 4.00) theirs |" in table


def test_the_share_of_the_peak_counts_operations(monkeypatch):
    monkeypatch.setattr(benchmark, "_matrix_product", lambda: lambda: 1_000_000)
    ticks = iter(range(100))
    monkeypatch.setattr(benchmark, "_cpu_seconds", lambda: float(next(ticks)))
    row = benchmark._measure([benchmark.Contender("ours", lambda: 100, flops=2_500)], rounds=1)[0]
    assert row["share_of_peak"] == 0.25
    shape = benchmark.Shape(1000, order=3, hidden_units=10, direct=True)
    assert shape.flops(training=False) == 2 * (1000 * (10 + 120) + 120 * 10)
    assert shape.flops(training=True) == 3 * shape.flops(training=False)


def test_requests_are_timed_singly_but_for_the_unmeasured_round(monkeypatch):
    monkeypatch.setattr(benchmark, "_REQUESTED", 64)
    asked = []

    def ask():
        asked.append(time.perf_counter())
        time.sleep(0.05 if len(asked) == 5 else 0)  # in the unmeasured round

    row = benchmark._measure([benchmark._requests("ours", ask, batch=2)], rounds=1)[0]
    assert len(asked) == 64 and row["milliseconds"][1] < 10
    row = benchmark._measure([benchmark._requests("ours", ask, batch=1)], rounds=1)[0]
    table = benchmark_table({"rows": [{"benchmark": "serving"} | row]})
    assert f"{row['milliseconds'][0]:.2f} and {row['milliseconds'][1]:.2f}" in table


def test_a_served_model_and_those_on_a_device_are_asked(monkeypatch):
    small = benchmark.Shape(300, hidden_units=8)
    monkeypatch.setattr(benchmark, "Shape", lambda: small)
    for name, value in {"VOCABULARY_SIZE": 300, "HIDDEN_UNITS": 8, "_REQUESTS": (1, 3), "_REQUESTED": 1}.items():
        monkeypatch.setattr(benchmark, name, value)
    for group in benchmark._serving(None):
        for contender in group:
            assert contender.work() >= 20 and len(contender.seconds) == 20, contender.name


def test_the_command_measures_and_prints_json(monkeypatch, capsys):
    monkeypatch.setattr("keras_nplm.cli.measuring.use_one_core", lambda: None)
    assert main(["benchmark", "estimation", "--rounds", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rows"][0]["benchmark"] == "estimation" and result["rows"][0]["rate"] > 10_000
    assert main(["benchmark", "magic"]) == 2
    assert "There is no benchmark 'magic': choose of training" in capsys.readouterr().err
    assert main(["benchmark", "--rounds", "0"]) == 2


def test_fitting_and_scoring_are_what_is_timed():
    shape = benchmark.Shape(300, hidden_units=8)
    for make in (benchmark.FullSoftmax, benchmark._nce):
        model = []

        def spy(*arguments, make=make, model=model, **options):
            model.append(make(*arguments, **options))
            return model[0]

        work = benchmark._fit(shape, spy, steps=2)
        before = model[0].b.numpy()
        assert work() == 2 * benchmark.BATCH_SIZE and np.any(model[0].b.numpy() != before)
    ngrams = benchmark._ngrams(shape, 100)
    assert benchmark._score(benchmark._network(shape, benchmark._nce), ngrams)() == 100


def test_the_isi_toolkit_is_asked_where_it_is_on_the_path(tmp_path, monkeypatch):
    """A stand-in that checks what it is given: the toolkit itself is not packaged."""
    with monkeypatch.context() as context:
        context.setenv("PATH", str(tmp_path))
        with peers.isi_nplm(10, 3, 2, 2, np.ones((4, 3), int), 5) as work:
            assert work is None
    program = tmp_path / "trainNeuralNetwork"
    program.write_text(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --train_file) wc -l < $2 > %s;; esac; shift; done\n"
        % (tmp_path / "seen")
    )
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with peers.isi_nplm(10, 3, 2, 2, np.ones((4, 3), int), 5) as work:
        assert work() == 4
    assert (tmp_path / "seen").read_text().split() == ["4"]


def test_torch_does_the_same_work():
    pytest.importorskip("torch")
    shape = benchmark.Shape(300, hidden_units=8, direct=True)
    network = peers.torch_network(300, 5, 60, 8, True, benchmark._ngrams(shape, 32))
    assert network["train"](2) == 64 and network["score"](1) == 32


def test_cpu_seconds_count_work_and_not_waiting():
    began = benchmark._cpu_seconds()
    time.sleep(0.2)
    assert benchmark._cpu_seconds() - began < 0.1


def test_text_is_measured_at_two_sizes(monkeypatch):
    monkeypatch.setattr(corpus_benchmark, "SMALL", 2_000)
    rows = corpus_benchmark.corpora_rows(tokens=5_000)
    names = [f"{step}, {size:,} tokens" for size in (2_000, 5_000) for step in ("counting", "encoding", "windows")]
    assert [row["name"] for row in rows] == names
    for row in rows:
        assert row["rate"] > 100 and row["wall_rate"] > 100 and 1e8 < row["peak_memory"] < 4e9
    table = benchmark_table({"rows": [{"benchmark": "corpora"} | rows[0]]})
    assert table.startswith("| corpora |") and f"{rows[0]['peak_memory'] / 1e6:,.0f} MB" in table


def test_a_step_that_fails_is_told(tmp_path):
    with pytest.raises(RunError, match="The encoding of the benchmark ended with status 1"):
        corpus_benchmark.measure("encoding", tmp_path)


def test_a_text_too_small_to_compare_is_refused(capsys):
    assert main(["benchmark", "corpora", "--tokens", "10"]) == 2
    assert "`tokens` must be 1000000 or more. Received: 10" in capsys.readouterr().err


def test_two_workers_are_measured_beside_one(monkeypatch):
    monkeypatch.setattr(worker_benchmark, "OUTPUTS", {"full": 64})
    rates = iter([100.0, 160.0, 110.0, 154.0])
    asked = []
    monkeypatch.setattr(worker_benchmark, "_rate", lambda *what: asked.append(what) or next(rates))
    two, one = worker_benchmark.worker_rows(rounds=2)
    assert asked == [(1, "full"), (2, "full")] * 2
    assert one["rate"] == 105 and two["rate"] == 157
    assert two["ratio_to"] == {"twice full, 1 worker, 1 core": [0.75, 0.7, 0.8]}


def test_a_worker_of_the_benchmark_trains():
    assert worker_benchmark._rate(1, "nce") > 100
