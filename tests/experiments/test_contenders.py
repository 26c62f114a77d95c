"""Benchmarks of speed: contenders take turns, and a peer that crashes or is absent is a row."""

import os
import sys

import pytest

from keras_nplm import Corpus
from keras_nplm.data.corpus import SPLITS
from keras_nplm.serving import signatures
from tests.benchmarks import contenders, serving
from tests.benchmarks.contenders import Contender, Process, build_command, measure_group
from tests.benchmarks.recording import load_declaration
from tests.benchmarks.report import Settings

SENTENCES = [["the", "cat", "sat", f"w{number % 9}"] for number in range(400)]
CORPUS = Corpus("lines", "whitespace", dict.fromkeys(SPLITS, lambda: iter(SENTENCES)))
SETTINGS = Settings(CORPUS, rounds=1)
STUB = """
import os
import time

from tests.benchmarks.contenders import Contender

def build_noisy(ngrams):
    def sleep_and_count():
        time.sleep(0.05)
        return sum(1 for _ in range(ngrams))

    return Contender("noisy", sleep_and_count)

def build_crash():
    os._exit(3)
"""


def test_contenders_take_turns_and_are_compared_with_peers():
    turns = []
    now = [0.0]

    def build(name, seconds, **options):
        rounds = iter(seconds)

        def work():
            turns.append(name)
            now[0] += next(rounds)
            return 100

        return Contender(name, work, clock=lambda: now[0], **options)

    group = [build("ours", [9, 1, 2, 4]), build("theirs", [9, 4, 4, 4], peer=True)]
    ours, theirs = measure_group(group, rounds=3)
    assert turns == ["ours", "theirs"] * 4  # the first round is not measured
    assert (ours["rate"], ours["range"]) == (50, [25, 100])
    assert ours["ratio_to"] == {"theirs": [2, 1, 4]}
    assert "ratio_to" not in theirs


def test_peers_are_timed_by_their_own_clock_and_failures_are_rows(tmp_path, monkeypatch):
    (tmp_path / "stub_peers.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.syspath_prepend(tmp_path)  # a new process gets the path of this one
    peers = [
        Process("noisy", "stub_peers:build_noisy", {"ngrams": 1_000_000}, peer=True),
        Process("crash", "stub_peers:build_crash", {}),
        Process("absent", "absent_library:build", {}),
        build_command(["sh", "-c", "echo out of words >&2; exit 4"], 7, str(tmp_path)),
    ]
    ours, noisy, *failed = measure_group([Contender("ours", lambda: 1), *peers], rounds=1)
    assert 2e6 < noisy["rate"] < 1e9  # sleep is not counted, the loop is
    assert [*ours["ratio_to"]] == ["noisy"]
    assert [row["failure"] for row in failed] == [
        "its process ended: see its messages",
        "ModuleNotFoundError: No module named 'absent_library'",
        "exit status 4: out of words",
    ]


@pytest.mark.long
def test_estimation_is_measured_next_to_lmplz(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "lmplz").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n')
    (tmp_path / "lmplz").chmod(0o755)
    estimation = load_declaration("estimation")
    report = estimation.measure(SETTINGS)
    ours, peer = report["rows"]
    assert (ours["name"], peer["name"]) == ("ngram, 1,600 tokens", "lmplz, 1,600 tokens")
    assert ours["rate"] == 1_600 / ours["cpu_seconds"]
    assert 1e7 < ours["peak_memory"] < 1e9
    assert "--order=5" in (tmp_path / "arguments").read_text()
    assert "| ngram, 1,600 tokens |" in estimation.format_table(report)


@pytest.mark.long
def test_each_way_to_serve_answers_enough_requests(monkeypatch):
    for runtime in ("ai_edge_litert", "onnxruntime", "tf2onnx"):
        pytest.importorskip(runtime, reason="the extra [onnx] is not installed")
    monkeypatch.setattr(contenders, "CONTEXTS_PER_ROUND", 1)
    monkeypatch.setattr(signatures, "FUNCTIONS", (signatures.PredictNext,))  # no other is asked
    for group in serving.build_groups(None, 300, batches=(1, 3)):  # its files go with the generator
        for contender in group:
            assert contender.run_round()["request_seconds"], contender.name
            contender.close()
