"""Benchmarks: contenders take turns, and a peer that crashes or is absent is a row."""

import os
import sys

import pytest

from keras_nplm import Corpus
from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.experiments.benchmark import (
    Settings,
    contenders,
    estimation,
    networks,
    quality,
    serving,
)
from keras_nplm.experiments.benchmark.contenders import Contender, Process, measure_group
from keras_nplm.io.files import read_json, write_json

LINES = [["the", "cat", "sat", f"w{number % 9}"] for number in range(400)]
CORPUS = Corpus(
    "lines", "whitespace", {split: lambda: iter(LINES) for split in ("train", "validation", "test")}
)
STUB = """
import os, signal, sys, time
from pathlib import Path
from keras_nplm.experiments.benchmark.contenders import Contender

def build_noisy(ngrams):
    print("a library greets")
    return Contender("noisy", lambda: time.sleep(0.05) or sum(1 for _ in range(ngrams)))

def build_crash(rounds):
    def run_or_crash():
        return len([rounds.pop() if rounds else os.kill(os.getpid(), signal.SIGSEGV)])

    return Contender("crash", run_or_crash)

def build_exit():
    print("terminate called without an active exception", file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Names of functions of a module of peers, which child processes can import."""
    monkeypatch.setattr(contenders.gc, "collect", lambda: 0)
    (tmp_path / "stub_peers.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.syspath_prepend(tmp_path)  # a new process gets the path of this one
    return "stub_peers:build_{}".format


def test_contenders_take_turns_and_are_compared_with_peers(monkeypatch):
    clock = [0.0]
    turns = []
    monkeypatch.setattr(
        contenders, "multiply_matrices", lambda: lambda: clock.append(0) or 1_000_000
    )

    def build(name, seconds, **options):
        def work():
            turns.append(name)
            clock[0] += seconds[turns.count(name) - 1]
            return 100

        return Contender(name, work, clock=lambda: clock[0], **options)

    group = [build("ours", [9, 1, 2, 4]), build("theirs", [9, 4, 4, 4], peer=True)]
    ours, theirs = measure_group(group, rounds=3)
    assert turns == ["ours", "theirs"] * 4  # the first round is not measured
    assert (ours["rate"], ours["low"], ours["high"]) == (50, 25, 100)
    assert ours["ratio_to"] == {"theirs": [2, 1, 4]} and "ratio_to" not in theirs
    (row,) = measure_group([build("flops", [1] * 9, flops=2_500)], rounds=1)
    assert row["share_of_peak"] > 0 and row["rate"] == 100


def test_peers_are_timed_by_their_own_clock_and_failures_are_rows(stub, capfd):
    peers = [
        Process("noisy", stub("noisy"), {"ngrams": 1_000_000}, peer=True),
        Process("crash", stub("crash"), {"rounds": [1, 1]}, peer=True),
        Process("absent", "absent_library:build", {}, peer=True),
        Process(
            "needy", stub("noisy"), {"ngrams": 1}, peer=True, needs=["numpy", "absent_library"]
        ),
        Process("exit", stub("exit"), {}, peer=True),
    ]
    ours, noisy, *failed = measure_group([Contender("ours", lambda: 1), *peers], rounds=2)
    # sleep is not counted, the loop is
    assert 2e6 < noisy["rate"] < 1e9 and [*ours["ratio_to"]] == ["noisy"]
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
    assert whole["rate"] == 1_600 / whole["cpu_seconds"] and 1e7 < whole["peak_memory"] < 1e9
    assert whole["ratio_to"]["lmplz"][0] < 1 and "ratio_to" not in peer
    with pytest.raises(contenders.PeerError, match="It failed with exit status 4: out of words"):
        contenders.build_command(
            "It", ["sh", "-c", "echo out of words >&2; exit 4"], 7, str(tmp_path)
        ).run_round()
    words = (tmp_path / "arguments").read_text()
    assert "--order=5" in words and "--intermediate" in words and "--arpa" not in words


@pytest.mark.long
def test_serving_answers_requests_in_all_forms(monkeypatch):
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 1)
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
}
ROW |= {name: {"validation": 350.0, "test": 240.0} for name in ("cache", "dynamic")}
ROW["dynamic_settings"] = "chunks of 16, rate 0.1"


def test_quality_keeps_finished_models_and_compares_with_ours(tmp_path, monkeypatch):
    monkeypatch.setattr(contenders, "is_installed", lambda name: False)
    monkeypatch.setattr(quality, "make_rows", lambda rows, *_: None)
    better = {"test": 200.0, "dynamic": {"validation": 170.0, "test": 160.0}}
    monkeypatch.setattr(quality, "measure_ours", lambda row, _: ROW | better | {"name": row.title})
    lstm = quality.choose_recipe("LSTM", 300)
    (tmp_path / "quality").mkdir()
    write_json(tmp_path / "quality" / "LSTM-300.json", {"recipe": lstm, "row": ROW})
    rows = quality.measure(Settings(None, seconds=[300], directory=tmp_path))
    assert [row["name"] for row in rows[:3]] == [
        *(row.title for row in quality.OURS[300]),
        "PyTorch LSTM",
    ]
    assert rows[2]["ratio_to_ours"] == {"static": 1.5, "cache": 1.0, "dynamic": 1.5}
    assert rows[3] == {"name": "PyTorch Transformer", "failure": "torch not installed"}
    table = quality.BENCHMARK.format({"rows": rows})
    assert (
        "| PyTorch LSTM | 300 | 2.5 | 2.0 | 400.0 | 300.0 | 1.50 | 350.0 | 240.0 | 1.00 |" in table
    )
    assert "failure" in quality.measure_peer(
        lstm | {"dropout": 0.6}, tmp_path, tmp_path / "quality"
    )


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
        recipe = quality.choose_recipe(model, 300) | sizes
        row = quality.measure_peer(recipe, tmp_path / "corpus", tmp_path / "quality")
        assert row["name"] == f"PyTorch {model}" and 1 < row["test"] < 4
        assert row["dynamic"]["test"] <= row["test"] and row["cache"]["test"] <= 1.01 * row["test"]
        assert read_json(tmp_path / "quality" / f"{model}-300.json")["recipe"]["steps"] == 60
    peer = networks.run_torch(networks.PAPER, "training", 300)
    assert peer.run_round()["ngrams"] == 6 * networks.PAPER.batch_size  # beside TensorFlow
    peer.close()
