"""The benchmark `quality`: finished models are kept, failures are rows, ratios are to our network."""

import dataclasses

import pytest

from keras_nplm.cli.main import main
from keras_nplm.data.corpora import open_corpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.experiments.benchmark import quality
from keras_nplm.experiments.benchmark.peers import is_installed
from keras_nplm.experiments.benchmark.torch_language_models import Recipe
from keras_nplm.experiments.tables import format_benchmark
from keras_nplm.io.files import read_json, write_json
from keras_nplm.io.processor import read_processor_name

FIGURES = {"parameters": 2_000_000, "cpu_seconds": 300.2, "epochs": 2.5, "validation": 400.0, "test": 300.0}
ROW = FIGURES | {"dynamic": {"validation": 350.0, "test": 240.0}, "dynamic_settings": "chunks of 16, rate 0.1"}
ROW |= {"processor": "Z80"}


def test_a_finished_model_is_kept_unless_its_recipe_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "is_installed", lambda name: False)
    recipe = Recipe("lstm", 300)
    described = dataclasses.asdict(recipe) | {"cutoffs": list(recipe.cutoffs)}
    write_json(tmp_path / "lstm-300.json", {"recipe": described, "row": ROW})
    assert quality.measure_peer(recipe, tmp_path, tmp_path) == {"name": "PyTorch LSTM, 300 CPU seconds"} | ROW
    changed = quality.measure_peer(dataclasses.replace(recipe, dropout=0.6), tmp_path, tmp_path)
    assert changed["failure"].startswith("PyTorch is not installed. Fix: pip install")


def test_rows_are_compared_with_ours(tmp_path, monkeypatch):
    ours = {"name": "ours"} | ROW | {"test": 200.0, "dynamic": {"validation": 170.0, "test": 160.0}}
    made = []
    monkeypatch.setattr(quality, "make_rows", lambda rows, *_, **__: made.extend(rows))
    monkeypatch.setattr(quality, "measure_ours", lambda *_: ours)
    failed = {"name": "b", "failure": "killed by SIGSEGV"}
    monkeypatch.setattr(
        quality, "measure_peer", lambda recipe, *_: {"lstm": {"name": "a"} | ROW}.get(recipe.kind, failed)
    )
    rows = quality.measure(tmp_path, [300])
    assert made == [quality.OURS] and "--held-out-mass 0" in quality.OURS.command
    assert rows[0] == ours and rows[2] == failed
    assert rows[1]["ratio_to_ours"] == {"static": 1.5, "dynamic": 1.5}
    table = format_benchmark({"rows": [{"benchmark": "quality"} | row for row in rows]})
    assert "| ours | 300 | 2.5 | 2.0 | 400.0 | 200.0 |  | 170.0 | 160.0 |  | chunks of 16, rate 0.1 | Z80 |" in table
    assert "| a | 300 | 2.5 | 2.0 | 400.0 | 300.0 | 1.50 | 350.0 | 240.0 | 1.50 |" in table
    assert "| b | failed: killed by SIGSEGV |" in table and "share of peak" not in table


def test_a_budget_of_nothing_is_refused(capsys):
    for seconds in ("0", "300,200", "five"):
        assert main(["benchmark", "quality", "--seconds", seconds]) == 2
        assert "`seconds` must be" in capsys.readouterr().err


@pytest.mark.long
def test_a_model_is_trained_in_its_process(tmp_path):
    if not is_installed("torch"):
        pytest.skip("torch is not installed (extra [benchmark])")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 30)
    corpus = open_corpus(train=[str(text)], validation=[str(text)], test=[str(text)])
    encode_corpus(corpus, count_vocabulary(corpus, min_count=1), tmp_path / "corpus")
    recipe = Recipe("lstm", width=8, batch=2, length=6, cutoffs=(3,), steps=40, rate=0.03, dropout=0.1)
    row = quality.measure_peer(recipe, tmp_path / "corpus", tmp_path / "quality")
    assert row["name"] == "PyTorch LSTM, 40 steps" and 1 < row["test"] < 4 and row["dynamic"]["test"] <= row["test"]
    assert row["processor"] == read_processor_name()
    assert row["epochs"] > 0.4 and row["cpu_seconds"] > 0 and row["parameters"] > 100
    assert [path.name for path in (tmp_path / "quality").iterdir()] == ["lstm-40.json"]
    assert read_json(tmp_path / "quality" / "lstm-40.json")["recipe"]["steps"] == 40
    broken = quality.measure_peer(
        dataclasses.replace(recipe, layers=-1, kind="rnn"), tmp_path / "corpus", tmp_path / "q"
    )
    assert broken["failure"] == "KeyError: 'rnn'"


def test_a_result_without_the_name_of_a_processor_is_shown():
    row = {name: value for name, value in ROW.items() if name != "processor"} | {"benchmark": "quality", "name": "LSTM"}
    assert "| LSTM | 300 |" in format_benchmark({"rows": [row]})
