"""Log-probabilities of the models of a report: kept with the CPU seconds of the work."""

import itertools
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import Uniform
from keras_nplm.data.corpus import HELD_OUT
from keras_nplm.experiments import log_probs
from keras_nplm.experiments.benchmark import quality
from keras_nplm.experiments.rows import Row, describe_command
from keras_nplm.io.files import read_arrays, read_json, write_arrays, write_json
from keras_nplm.language_model.dynamics import DYNAMICS_FILE, load_dynamics
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics

V = 9
IDS = np.array([4, 5, 6, 4, 5], np.int32)
ROW = Row("network", "network", "train --config brown")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A directory with a row; each reading of a text, and tuning, takes a CPU second."""
    model = tmp_path / "rows" / ROW.name
    model.mkdir(parents=True)
    (model / "command.txt").write_text(describe_command(ROW))
    split = {"perplexity": 300.0}
    metrics = {"validation": split, "test": split, "history": [{}], "training_cpu_seconds": 8}
    write_json(model / "metrics.json", metrics)
    (tmp_path / "quality").mkdir()
    uniform = Uniform(V, "stream")
    tuned = TunedDynamics(DynamicSettings(static_share=0.1), None, 2.0, 1.0, 10, 3)

    def load(directory):
        dynamics = load_dynamics(directory, uniform)
        return Mock(model=uniform, dynamics=dynamics, tune_dynamic=Mock(return_value=tuned))

    monkeypatch.setattr(log_probs, "LanguageModel", Mock(load=load))
    monkeypatch.setattr(log_probs, "EncodedCorpus", Mock(load=Mock(return_value=Mock(ids=read))))
    monkeypatch.setattr(log_probs, "make_learner", Mock(return_value=uniform))
    monkeypatch.setattr(quality, "build_continuous_cache", Mock(return_value=uniform))
    monkeypatch.setattr(log_probs.time, "process_time", Mock(side_effect=itertools.count()))
    return tmp_path


def read(split):
    return IDS


def test_seconds_of_dynamic_evaluation_are_those_of_the_work_that_was_kept(made):
    first = quality.measure_ours(ROW, made)
    assert first["dynamic_cpu_seconds"] == 3  # of tuning, of the copy, of the trained network
    (made / "quality" / "network.json").unlink()
    assert quality.measure_ours(ROW, made) == first


def test_files_of_earlier_versions_have_no_seconds(made):
    quality.measure_ours(ROW, made)
    copy = made / "log_probs" / "network-copy.npz"
    kept = read_arrays(copy, HELD_OUT)
    write_arrays(copy, kept)
    assert log_probs.sum_dynamic_seconds(made, ROW.name) is None
    (made / "quality" / "network.json").unlink()
    row = quality.measure_ours(ROW, made)
    assert row["dynamic_cpu_seconds"] is None
    assert "| 131.0 |" not in quality.BENCHMARK.format({"rows": [{**row, "parameters": 1}]})


def test_dynamics_that_were_tuned_elsewhere_have_no_seconds(made):
    quality.measure_ours(ROW, made)
    path = made / "rows" / ROW.name / DYNAMICS_FILE
    content = read_json(path)
    del content["cpu_seconds"]
    write_json(path, content)
    assert log_probs.sum_dynamic_seconds(made, ROW.name) is None
