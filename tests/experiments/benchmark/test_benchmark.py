"""`keras-nplm benchmark`: names are listed without TensorFlow, results are rows."""

import json
import subprocess
import sys

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
    assert main(["benchmark", "estimation", "--rounds", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["benchmark"] == "estimation" and row["unit"] == "n-grams/s" and row["rate"] > 0


def test_misuse_is_refused(capsys):
    for arguments, message in {
        "magic": "'magic'",
        "--rounds 0": "`rounds` must be 1 or more",
        "corpora --tokens 10": "`tokens` must be 1000000 or more. Received: 10",
    }.items():
        assert main(["benchmark", *arguments.split()]) == 2
        assert message in capsys.readouterr().err
