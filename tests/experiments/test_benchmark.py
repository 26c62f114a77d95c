"""Benchmarks: contenders take turns, and a peer that crashes or is absent is a row."""

import functools
import os
import re
import shutil
import sys
import time
from unittest.mock import Mock

import pytest

from keras_nplm import Corpus
from keras_nplm.cli.main import main
from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.experiments import benchmark
from keras_nplm.experiments.benchmark import (
    Settings,
    contenders,
    estimation,
    networks,
    quality,
    serving,
    start,
)
from keras_nplm.experiments.benchmark.contenders import Contender, Process, measure_group
from keras_nplm.io.files import read_json, write_json
from keras_nplm.serving import signatures

LINES = [["the", "cat", "sat", f"w{number % 9}"] for number in range(400)]


def read_lines():
    return iter(LINES)


CORPUS = Corpus("lines", "whitespace", dict.fromkeys(SPLITS, read_lines))
STUB = """
import os
import signal
import sys
import time

from keras_nplm.experiments.benchmark.contenders import Contender

def build_noisy(ngrams):
    print("a library greets")

    def sleep_and_count():
        time.sleep(0.05)
        return sum(1 for _ in range(ngrams))

    return Contender("noisy", sleep_and_count)

def build_crash(rounds):
    done = []

    def run_or_crash():
        if len(done) == rounds:
            os.kill(os.getpid(), signal.SIGSEGV)
        done.append("a round")
        return 1

    return Contender("crash", run_or_crash)

def build_exit():
    print("terminate called without an active exception", file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Names of functions of a module of peers, which child processes can import."""
    monkeypatch.setattr(contenders.gc, "collect", Mock())
    (tmp_path / "stub_peers.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.syspath_prepend(tmp_path)  # a new process gets the path of this one
    return "stub_peers:build_{}".format


class Timetable:
    """Contenders whose rounds take the seconds that are given; `turns` are their names in order."""

    def __init__(self):
        self.turns = []
        self.now = 0.0

    def read_clock(self):
        return self.now

    def build(self, name, seconds, **options):
        rounds = iter(seconds)

        def work():
            self.turns.append(name)
            self.now += next(rounds)
            return 100

        return Contender(name, work, clock=self.read_clock, **options)


def test_contenders_take_turns_and_are_compared_with_peers():
    table = Timetable()
    group = [table.build("ours", [9, 1, 2, 4]), table.build("theirs", [9, 4, 4, 4], peer=True)]
    ours, theirs = measure_group(group, rounds=3)
    assert table.turns == ["ours", "theirs"] * 4  # the first round is not measured
    assert (ours["rate"], ours["low"], ours["high"]) == (50, 25, 100)
    assert ours["ratio_to"] == {"theirs": [2, 1, 4]}
    assert "ratio_to" not in theirs


def test_seconds_are_wall_time_where_a_gpu_is_used(monkeypatch):
    monkeypatch.setattr(contenders.Path, "exists", Mock(return_value=True))
    contender = Contender("sleeper", lambda: time.sleep(0.2) or 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # hidden
    assert contender.run_round()["seconds"] < 0.1
    assert contenders.count_steps(6) == 6
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert contender.run_round()["seconds"] >= 0.2
    assert contenders.count_steps(6) == 30


def test_a_rate_is_reported_as_a_share_of_the_matrix_product(monkeypatch):
    monkeypatch.setattr(contenders, "multiply_matrices", Mock(return_value=multiply))
    (row,) = measure_group([Timetable().build("ours", [1, 1], flops=2_500)], rounds=1)
    assert row["rate"] == 100
    assert row["share_of_peak"] == pytest.approx(100 * 2_500 / 1_000_000, rel=0.5)


def multiply():
    """Say that 100,000 flops were done, in a tenth of a CPU second."""
    began = time.process_time()
    while time.process_time() - began < 0.1:
        pass
    return 100_000


def test_peers_are_timed_by_their_own_clock_and_failures_are_rows(stub, capfd):
    peers = [
        Process("noisy", stub("noisy"), {"ngrams": 1_000_000}, peer=True),
        Process("crash", stub("crash"), {"rounds": 2}, peer=True),
        Process("absent", "absent_library:build", {}, peer=True),
        Process(
            "needy", stub("noisy"), {"ngrams": 1}, peer=True, needs=["numpy", "absent_library"]
        ),
        Process("exit", stub("exit"), {}, peer=True),
    ]
    group = [Contender("ours", Mock(return_value=1)), *peers]
    ours, noisy, *failed = measure_group(group, rounds=2)
    # sleep is not counted, the loop is
    assert 2e6 < noisy["rate"] < 1e9
    assert [*ours["ratio_to"]] == ["noisy"]
    assert [row["failure"] for row in failed] == [
        "killed by SIGSEGV",
        "ModuleNotFoundError: No module named 'absent_library'",
        "absent_library not installed",
        "exit status 3: terminate called without an active exception",
    ]
    assert "greets" not in capfd.readouterr().out
    assert all(peer.child is None or peer.child.exitcode is not None for peer in peers)  # closed


def test_estimation_is_measured_next_to_lmplz(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "lmplz").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n')
    (tmp_path / "lmplz").chmod(0o755)
    whole, peer = estimation.measure(Settings(CORPUS, 1))
    assert (whole["name"], peer["name"]) == ("ngram, 1,600 tokens", "lmplz, 1,600 tokens")
    assert whole["rate"] == 1_600 / whole["cpu_seconds"]
    assert 1e7 < whole["peak_memory"] < 1e9
    assert whole["ratio_to"]["lmplz"][0] < 1
    assert "ratio_to" not in peer
    words = (tmp_path / "arguments").read_text()
    assert "--order=5" in words
    assert "--intermediate" in words
    assert "--arpa" not in words


@pytest.mark.long
def test_the_start_of_commands_is_compared_with_that_of_tensorflow(monkeypatch, capsys):
    """Empty programs are timed in place of the two that import TensorFlow.

    The program of Keras runs in this process.
    """
    of_tensorflow = {
        "complete through Keras": start._THROUGH_KERAS,
        "import tensorflow": "import tensorflow",
    }

    def build(name, function, arguments, **options):
        if program := of_tensorflow.get(name):
            assert arguments["words"] == [sys.executable, "-c", program]
            arguments = arguments | {"words": [sys.executable, "-c", "pass"]}
        return Process(name, function, arguments, **options)

    exec(start._THROUGH_KERAS, {})
    assert re.match(r"\[\('[^']+', 0\.\d+\), ", capsys.readouterr().out)
    monkeypatch.setattr(start, "Process", build)
    monkeypatch.setattr(start, "measure_group", functools.partial(measure_group, warm_up=0))
    *ours, tensorflow = start.measure(Settings(CORPUS, 1))
    assert [row["name"] for row in ours] == ["complete", "score", "complete through Keras"]
    assert all(row["cpu_seconds"] > 0 and row["wall_seconds"] > 0 for row in [*ours, tensorflow])
    for row in ours:  # no test is timed: that TensorFlow is not loaded is tested in test_startup
        expected = tensorflow["cpu_seconds"] / row["cpu_seconds"]
        assert row["ratio_to"][tensorflow["name"]][0] == pytest.approx(expected)


def test_a_command_that_fails_says_its_last_line(tmp_path):
    words = ["sh", "-c", "echo out of words >&2; exit 4"]
    command = contenders.build_command("It", words, 7, str(tmp_path))
    with pytest.raises(contenders.PeerError, match="It failed with exit status 4: out of words"):
        command.run_round()


@pytest.mark.long
def test_each_way_to_serve_answers_enough_requests(monkeypatch):
    for runtime in ("ai_edge_litert", "onnxruntime", "tf2onnx"):
        pytest.importorskip(runtime, reason="the extra [onnx] is not installed")
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 1)
    monkeypatch.setattr(signatures, "FUNCTIONS", (signatures.PredictNext,))  # no other is asked
    export_litert = serving.export_litert

    def export_once(language_model, path, quantise):
        if quantise:  # quantised files: serving/test_on_device.py
            shutil.copy(path.with_name("float32.tflite"), path)
        else:
            export_litert(language_model, path, quantise=False)

    monkeypatch.setattr(serving, "export_litert", export_once)
    for group in serving.build_groups(None, 300, batches=(1, 3)):  # its files go with the generator
        for contender in group:
            assert len(contender.run_round()["request_seconds"]) >= 20, contender.name
            contender.close()


ROW = {
    "parameters": 2_000_000,
    "cpu_seconds": 300.2,
    "epochs": 2.5,
    "validation": 400.0,
    "test": 300.0,
    "cache": {"validation": 350.0, "test": 240.0},
    "dynamic": {"validation": 350.0, "test": 240.0},
    "dynamic_settings": "chunks of 16, rate 0.1",
}


def measure_better(row, directory):
    """Stand in for `quality.measure_ours`."""
    dynamic = {"validation": 170.0, "test": 160.0}
    return {**ROW, "name": row.title, "test": 200.0, "dynamic": dynamic}


def test_quality_keeps_finished_models_and_compares_with_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(contenders, "is_installed", Mock(return_value=False))
    monkeypatch.setattr(quality, "make_rows", Mock())
    monkeypatch.setattr(quality, "measure_ours", measure_better)
    lstm = quality.choose_recipe("LSTM", 300)
    (tmp_path / "quality").mkdir()
    write_json(tmp_path / "quality" / "LSTM-300.json", {"recipe": lstm, "row": ROW})
    rows = quality.measure(Settings(None, seconds=[300], directory=tmp_path))
    assert [row["name"] for row in rows[:3]] == [
        *(row.title for row in quality.OURS[300]),
        "PyTorch LSTM",
    ]
    assert rows[2]["ratio_to_ours"] == {"static": 1.5, "cache": 1.0, "dynamic": 1.5}
    failure = "torch not installed: `pip install 'keras-nplm[benchmark]'`"
    assert rows[3] == {"name": "PyTorch Transformer", "failure": failure}
    table = quality.BENCHMARK.format({"rows": rows})
    assert (
        "| PyTorch LSTM | 300 | 2.5 | 2.0 | 400.0 | 300.0 | 1.50 | 350.0 | 240.0 | 1.00 |" in table
    )
    long_lstm = quality.choose_recipe("LSTM", 3000)
    write_json(tmp_path / "quality" / "LSTM-3000.json", {"recipe": long_lstm, "row": ROW})
    rows = quality.measure(Settings(None, seconds=[3000], directory=tmp_path))
    title = quality.OURS[3000][0].title
    assert [row["name"] for row in rows] == [title, "PyTorch LSTM, 3,000 CPU seconds"]
    changed = {**lstm, "dropout": 0.6}
    assert "failure" in quality.measure_peer(changed, tmp_path, tmp_path / "quality")


@pytest.mark.parametrize("seconds", [(300, 600, 1000, 3000), (300, 300, 3000)])
def test_quality_measures_ours_once_and_names_peers_by_seconds(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(quality, "make_rows", Mock())
    monkeypatch.setattr(quality, "measure_ours", measure_better)
    trained = []

    def measure_peer(recipe, corpus, directory):
        trained.append((recipe["seconds"], recipe["layers"]))
        return {**ROW, "name": f"PyTorch {recipe['model']}"}

    monkeypatch.setattr(quality, "measure_peer", measure_peer)
    rows = quality.measure(Settings(None, seconds=seconds, directory=tmp_path))
    names = [row["name"] for row in rows]
    assert len({*names}) == len(names)
    place = names.index(quality.OURS[3000][0].title)
    assert names[: len(quality.OURS[300])] == [row.title for row in quality.OURS[300]]
    assert names[place + 1 :] == [
        f"PyTorch LSTM, {budget:,} CPU seconds" for budget in seconds if budget >= 1000
    ]
    is_repeated = seconds.count(300) == 2
    assert ("PyTorch LSTM" in names) == is_repeated
    assert ("PyTorch LSTM, 600 CPU seconds" in names) == (not is_repeated)


@pytest.mark.parametrize("can_bind", [True, False])
def test_a_report_says_whether_its_core_was_bound(monkeypatch, capsys, can_bind, text):
    report = {"rows": [], "cpu": "M4", "rounds": 1, "tensorflow": "2.21.0"}
    monkeypatch.setattr(benchmark, "run_benchmarks", Mock(return_value=report))
    bind = Mock()
    monkeypatch.setattr(os, "sched_setaffinity", bind, raising=False)
    if not can_bind:
        monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.setattr(contenders, "has_gpu", Mock(return_value=False))
    files = ["--train", text, "--validation", text, "--test", text]
    assert main(["benchmark", "start", *files]) == 0
    cores = "one core of M4" if can_bind else "not bound to one core: M4"
    assert capsys.readouterr().out.startswith(f"{cores}, TensorFlow 2.21.0, 1 rounds")
    assert bind.called == can_bind


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\n")
    return str(path)


@pytest.mark.long
def test_quality_trains_a_model_in_its_process(tmp_path):
    if not contenders.is_installed("torch"):
        pytest.skip("torch is not installed: it takes gigabytes (extra [benchmark])")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 30)
    corpus = open_corpus(train=[str(text)], validation=[str(text)], test=[str(text)])
    encode_corpus(corpus, count_vocabulary(corpus, min_count=1), tmp_path / "corpus")
    sizes = dict(width=64, batch=2, length=48, cutoffs=[7], steps=60, rate=0.01, dropout=0.1)
    for model in quality.RECIPES:
        recipe = {**quality.choose_recipe(model, 300), **sizes}
        row = quality.measure_peer(recipe, tmp_path / "corpus", tmp_path / "quality")
        assert row["name"] == f"PyTorch {model}"
        assert 1 < row["test"] < 4
        assert row["dynamic"]["test"] <= row["test"]
        assert row["cache"]["test"] <= 1.01 * row["test"]
        assert read_json(tmp_path / "quality" / f"{model}-300.json")["recipe"]["steps"] == 60
    peer = networks.run_torch(networks.PAPER, "training", 300)
    assert peer.run_round()["ngrams"] == 6 * networks.PAPER.training.batch_size  # beside TensorFlow
    peer.close()
