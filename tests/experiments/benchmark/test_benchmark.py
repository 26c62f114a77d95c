"""`keras-nplm benchmark`: names are listed without TensorFlow, results are rows."""

import json
import subprocess
import sys

import pytest

import keras_nplm.cli.experiments as experiments
from keras_nplm.cli.main import main


def test_names_are_listed_without_tensorflow():
    program = (
        "import sys, keras_nplm.experiments.benchmark, keras_nplm.experiments.studies\n"
        "import keras_nplm.experiments.paper_rows, keras_nplm.experiments.tables\n"
        "assert not {'tensorflow', 'keras'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_command_measures_and_prints_json(monkeypatch, capsys):
    monkeypatch.setattr("keras_nplm.training.distribution.use_one_core", lambda: None)
    assert main(["benchmark", "estimation", "--rounds", "1", "--tokens", "2000,3000", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["benchmark"] for row in rows} == {"estimation"}
    own = [row for row in rows if row["name"].startswith("ngram") and "ids" not in row["name"]]
    assert [row["name"] for row in own] == ["ngram, 2,000 tokens", "ngram, 3,000 tokens"]
    assert all(row["unit"] == "tokens/s" and row["rate"] > 0 for row in own)


def test_misuse_is_refused(capsys):
    for arguments, message in {
        "magic": "'magic'",
        "--rounds 0": "`rounds` must be 1 or more",
        "preparation --tokens 0,9": "`tokens` must be 1 or more. Received: '0,9'",
    }.items():
        assert main(["benchmark", *arguments.split()]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, command",
    [
        ("", "keras-nplm benchmark --record"),
        ("estimation --rounds 2 --tokens 9 --corpus brown", "keras-nplm benchmark estimation {} --record"),
    ],
)
def test_a_recorded_benchmark_has_its_command(monkeypatch, flags, command):
    recorded = []
    monkeypatch.setattr("keras_nplm.training.distribution.use_one_core", lambda: None)
    monkeypatch.setattr(experiments, "open_named_corpus", lambda options: None)
    monkeypatch.setattr(experiments, "run_benchmarks", lambda *arguments, **options: {"rows": []})
    monkeypatch.setattr(experiments, "_check_record", lambda options: None)
    monkeypatch.setattr(experiments, "_record", lambda options, name, report: recorded.append(report["command"]))
    assert main(["benchmark", *flags.split(), "--record", "--data-dir", "/private", "--json"]) == 0
    assert recorded == [command.format("--rounds 2 --tokens 9 --corpus brown")]
