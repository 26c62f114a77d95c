"""Whole commands are measured in processes, in turns, on a text of each size."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_nplm import Corpus
from keras_nplm.experiments.benchmark import commands, estimation, preparation, tfds
from keras_nplm.experiments.benchmark.children import measure_command
from keras_nplm.experiments.tables import format_benchmark
from keras_nplm.io.errors import RunError

LINES = [["the", "cat", "sat", f"w{number % 9}"] for number in range(400)]
CORPUS = Corpus("lines", "whitespace", {"train": lambda: iter(LINES)})
ALLOCATE = "import time; block = b'1' * 300_000_000; time.sleep(0.3)"
NESTED = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ALLOCATE!r}])"
SPEND = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'sum(range(30_000_000))'])"


@pytest.fixture
def lmplz(tmp_path, monkeypatch):
    """Put a program that stands for lmplz on the PATH; it writes its arguments to a file."""

    def install(body: str) -> Path:
        program = tmp_path / "bin" / "lmplz"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n{body}\n', encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        return tmp_path / "arguments"

    return install


@pytest.mark.parametrize("program", [ALLOCATE, NESTED])
def test_peak_memory_is_that_of_a_process_and_its_children(program):
    measured = measure_command([sys.executable, "-c", program], "It")
    assert 3e8 < measured["peak_memory"] < 5e8 and measured["seconds"] > 0.3


def test_cpu_seconds_are_those_of_a_command_and_its_children():
    idle = measure_command([sys.executable, "-c", "import time; time.sleep(1)"], "It")
    busy = measure_command([sys.executable, "-c", SPEND], "It")
    assert idle["cpu_seconds"] < idle["seconds"] > 1 and busy["cpu_seconds"] > idle["cpu_seconds"]


def test_a_command_that_fails_is_named_with_its_last_line():
    with pytest.raises(RunError, match="It failed with exit status 3: two"):
        measure_command([sys.executable, "-c", "import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)"], "It")


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_command_ends_with_a_killed_benchmark(tmp_path):
    started = tmp_path / "started"
    command = f"import os, pathlib, time; pathlib.Path({str(started)!r}).write_text(str(os.getpid())); time.sleep(300)"
    benchmark = (
        "import sys; from keras_nplm.experiments.benchmark.children import measure_command\n"
        f"measure_command([sys.executable, '-c', {command!r}], 'It')"
    )
    with subprocess.Popen([sys.executable, "-c", benchmark]) as parent:
        while not (started.exists() and started.read_text()) and parent.poll() is None:
            time.sleep(0.05)
        parent.kill()
    end = time.monotonic() + 10
    while Path(f"/proc/{started.read_text()}").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(f"/proc/{started.read_text()}").exists()


def test_estimation_is_measured_next_to_lmplz(lmplz):
    arguments = lmplz("exit 0")
    rows = estimation.measure(CORPUS, rounds=1, tokens=[2_000])
    whole, alone, peer = rows
    assert [row["name"] for row in rows] == [
        "ngram, 2,000 tokens",
        "ngram, 2,000 tokens: estimation from ids",
        "lmplz, 2,000 tokens",
    ]
    assert whole["rate"] == 2_000 / whole["cpu_seconds"] and 1e7 < whole["peak_memory"] < 1e9
    assert alone["cpu_seconds"] < whole["cpu_seconds"] and "peak_memory" not in alone
    assert whole["ratio_to"]["lmplz"][0] < 1 and "ratio_to" not in peer
    words = arguments.read_text().split()
    assert "--order=5" in words and "--intermediate" in "".join(words) and "--arpa" not in "".join(words)


def test_an_absent_peer_has_a_row_and_no_ratio(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    whole, _, peer = estimation.measure(CORPUS, rounds=1, tokens=[2_000])
    assert peer == {"name": "lmplz, 2,000 tokens", "unit": "tokens/s", "failure": "not installed"}
    assert whole["ratio_to"] == {}
    table = format_benchmark({"rows": [row | {"benchmark": "estimation"} for row in (whole, peer)]})
    assert "| estimation | lmplz, 2,000 tokens | not installed |  |  |  |  |" in table
    assert f"| {whole['rate']:,.0f} | {whole['cpu_seconds']:,.1f} | {whole['wall_rate']:,.0f} |" in table
    assert f"| {whole['peak_memory'] / 1e6:,.0f} MB |" in table


@pytest.mark.long
def test_a_peer_that_fails_has_no_further_turn(lmplz):
    arguments = lmplz("echo out of words >&2; exit 4")
    *_, peer = estimation.measure(CORPUS, rounds=2, tokens=[2_000])
    assert peer["failure"] == "lmplz failed with exit status 4: out of words"
    assert len(arguments.read_text().splitlines()) == 1


def test_a_failure_of_our_command_ends_the_benchmark():
    command = commands.TimedCommand("prepare", lambda texts, results: commands.call_package("prepare", "--fly"))
    with pytest.raises(RunError, match="prepare failed with exit status 2"):
        commands.measure_commands([command], CORPUS, rounds=1, tokens=[1_000])


def test_preparation_is_measured_next_to_beam(monkeypatch):
    monkeypatch.setattr(preparation, "is_installed", lambda module: module == "apache_beam")
    calls = []

    def measure(words, name):
        texts = [word.partition("=")[2] for word in words if word.startswith(("--train=", "--validation=", "--test="))]
        assert [len(Path(text).read_text().split()) for text in texts] == [tokens[len(calls) // 4], 10_000, 10_000]
        calls.append(words)
        return {"seconds": 2.0, "cpu_seconds": 4.0 if "--runner=DirectRunner" in words else 1.0, "peak_memory": 5}

    tokens = [1_000, 3_000]
    monkeypatch.setattr(commands, "measure_command", lambda words, name: measure(words, name) | {"output": ""})
    rows = preparation.measure(CORPUS, rounds=2, tokens=tokens)
    assert ["--runner=DirectRunner" in call for call in calls] == [False, True] * 4
    assert [row["rate"] for row in rows] == [1_000, 250, 3_000, 750]
    assert rows[2]["name"] == "prepare, 3,000 tokens" and rows[2]["wall_rate"] == 1_500
    assert rows[2]["ratio_to"] == {"prepare --runner DirectRunner": [4, 4, 4]}


def test_preparation_runs_without_beam(monkeypatch):
    monkeypatch.setattr(preparation, "is_installed", lambda module: False)
    local, beam = preparation.measure(CORPUS, rounds=1, tokens=[1_000])
    assert local["rate"] > 0 and local["cpu_seconds"] > 0 and beam["failure"] == "not installed"


@pytest.mark.long
def test_a_tfds_set_is_measured_on_one_core_and_on_all(monkeypatch, capsys):
    monkeypatch.setattr(tfds.os, "cpu_count", lambda: 2)
    calls, measure = [], commands.measure_command
    monkeypatch.setattr(commands, "measure_command", lambda words, name: (calls.append(words), measure(words, name))[1])
    rows = tfds.measure(CORPUS, rounds=1, tokens=[2_000])
    assert [row["name"] for row in rows] == [
        "prepare --corpus tfds, 1 core, 2,000 tokens",
        "prepare --corpus tfds, 2 cores, 2,000 tokens",
    ]
    assert all(row["rate"] > 0 and row["peak_memory"] > 1e8 for row in rows)
    assert "--corpus=tfds:sampled_text" in calls[0] and capsys.readouterr().out == ""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to cores here")
def test_a_command_on_tfds_starts_on_its_cores_with_the_directory_of_the_set(tmp_path, monkeypatch):
    program = "import os; print(len(os.sched_getaffinity(0)), os.environ['TFDS_DATA_DIR'])"
    monkeypatch.setattr(tfds, "call_package", lambda *words: [sys.executable, "-c", program])
    words = tfds._build_prepare(1)(tmp_path, tmp_path)
    assert measure_command(words, "It")["output"].split() == ["1", str(tmp_path / "sets")]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        words = tfds._build_prepare(os.cpu_count())(tmp_path, tmp_path)
        assert int(measure_command(words, "It")["output"].split()[0]) >= len(cores)
    finally:
        os.sched_setaffinity(0, cores)
