"""The Ray recipe trains with two workers of a local Ray."""

import json
import os
import subprocess
import sys

import pytest

from keras_nplm.cli.recipes.ray_train import main

TEXT = "the cat sat on the mat\nthe dog sat on the cat\na dog and a cat\n" * 60


def test_invalid_options_end_before_ray_starts(monkeypatch, capsys):
    assert main(["--workers", "0", "--output", "model"]) == 2
    assert "`--workers` must be 1 or more. Received: 0. Fix: " in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "ray.train", None)
    assert main(["--output", "model"]) == 2
    assert "Training on Ray needs the extra ray (" in capsys.readouterr().err


@pytest.mark.long
def test_two_workers_train_on_a_local_ray(tmp_path):
    pytest.importorskip("ray.train", reason="the extra [ray] is not installed")
    (tmp_path / "a.txt").write_text(TEXT)
    command = [
        sys.executable,
        "-m",
        "keras_nplm.cli.recipes.ray_train",
        "--workers",
        "2",
        "--train",
        "a.txt",
    ]
    command += [
        "--min-count",
        "1",
        "--embedding-dim",
        "8",
        "--hidden-units",
        "8",
        "--epochs",
        "1",
        "--output",
        "model",
    ]
    # a busy machine starts Ray in minutes
    environment = os.environ | {"RAY_raylet_start_wait_time_s": "300"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "validation" in run.stdout and "the model is in model" in run.stdout
    assert json.loads((tmp_path / "model" / "metrics.json").read_text())["best_epoch"] == 1
    # TensorFlow gathered gradients from two workers
    assert "group_size = 2" in run.stdout + run.stderr
