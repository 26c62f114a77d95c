"""Studies: figures of rows, seeds, n-grams and compressors; models that learn as they read."""

import importlib.util
import json
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from keras_nplm import LanguageModel, Options, TextOptions, open_corpus, train
from keras_nplm.io.files import write_json
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics
from keras_nplm.training.estimate import estimate
from tests.benchmarks import dynamics, quality, studies
from tests.benchmarks.report import Settings
from tests.benchmarks.studies import load_study


def test_figures_of_seeds_are_one_row(tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "make_rows", Mock())
    for row in load_study("modern").list_rows(Settings(Mock())):
        test = 250.0 + int(row.name.rpartition("-")[2])
        split = {"perplexity": test}
        metrics = {"validation": split, "test": split, "history": [{}], "parameters": 7}
        (tmp_path / "rows" / row.name).mkdir(parents=True)
        seconds = {"cpu_seconds": test, "training_cpu_seconds": 8}
        write_json(tmp_path / "rows" / row.name / "metrics.json", {**metrics, **seconds})
    study = load_study("modern")
    table = study.format_table(study.measure(Settings(Mock(), directory=tmp_path)))
    mean = "252.0 (251.0 to 253.0)"
    assert f"| `modern` (3 seeds) | {mean} | {mean} | +0.5 | 8 | 252 | 0.0 |" in table


def test_the_best_cache_on_validation_is_chosen():
    network = dict.fromkeys(("validation", "test"), np.log([0.5, 0.1]))
    good = {"validation": np.log([0.1, 0.5]), "test": np.log([0.1, 0.1])}
    bad = {"validation": np.log([0.1, 0.1]), "test": np.log([0.5, 0.5])}
    mixture, chosen = dynamics.measure_best_cache(network, [bad, good, bad])
    assert chosen is good and mixture["validation"] == pytest.approx(1 / 0.3)


@pytest.fixture(scope="module")
def directory(tmp_path_factory, leave_out_report) -> Path:
    """A directory with a small network and a trigram."""
    directory = tmp_path_factory.mktemp("models")
    words = np.random.default_rng(0).zipf(1.3, (150, 9)) % 26
    text = directory / "text.txt"
    text.write_text("".join(f"{' '.join(chr(97 + i) for i in line)}\n" for line in words))
    corpus = open_corpus(train=[str(text)])
    small = Options.of(
        **dict(order=3, context="concatenated", embedding_dim=4, hidden="tanh", hidden_units=4),
        **dict(epochs=1, batch_size=128, min_count=1, boundary="stream"),
    )
    with leave_out_report():
        train(corpus, directory / "rows" / "network", small)
    options = dict(text=TextOptions(boundary="stream", min_count=1), order=3)
    estimate("kneser-ney", corpus, directory / "rows" / "network-3", **options)
    return directory


@pytest.mark.long
def test_a_row_is_measured_beside_kneser_ney_and_compressors(directory, monkeypatch):
    monkeypatch.setattr(studies, "make_rows", Mock())
    row = {"name": "network", "title": "words", "command": "train", "ngrams": "", "orders": [3]}
    monkeypatch.setitem(studies.STUDIES["tokenization"], "rows", [row])
    study = load_study("tokenization")
    report = study.measure(Settings(Mock(), directory=directory))
    words, xz, *_ = report["rows"]
    for figures, name in ((words, "network"), (words["kneser_ney"], "network-3")):
        found = LanguageModel.load(directory / "rows" / name).evaluate("test")
        assert figures["test"] == pytest.approx(found["perplexity"])
        assert figures["bits_per_character"] == pytest.approx(found["bits_per_character"])
    assert words["types"] == 30 and "n=3, m=4, h=4, 1 epochs" in words["options"]
    assert 2 < xz["bits_per_character"] < 5
    assert "| `xz -9` |" in study.format_table(report)


@pytest.mark.long
def test_mixtures_have_the_figures_of_models_that_learn_as_they_read(directory, monkeypatch):
    settings = DynamicSettings(chunk=8, rate=0.5, static_share=0.1)
    tuned = TunedDynamics(settings, [], 2.0, 1.0, 10, 3)
    tune = Mock(return_value=tuned)  # tuning takes a minute
    monkeypatch.setattr(LanguageModel, "tune_dynamic", tune)
    study = {
        "rows": [{"name": "network"}, {"name": "network-3"}],
        "dynamic": ["network"],
        "kneser_ney": "network-3",
        "mixtures": {
            "static": ["network"],
            "dynamic": ["network-dynamic"],
            "all": ["network-dynamic", "network-3", "unigram cache", "n-gram cache"],
        },
    }
    report = json.loads(json.dumps(dynamics.measure_mixtures(study, directory)))
    static, dynamic, mixed = report["rows"]
    network = LanguageModel.load(directory / "rows" / "network")
    assert static["test"] == pytest.approx(network.evaluate("test")["perplexity"])
    reading = network.evaluate("test", dynamic=True)["dynamic"]["perplexity"]
    assert dynamic["test"] == pytest.approx(reading)
    assert mixed["validation"] <= 1.01 * dynamic["validation"]
    assert report["settings"] == str(settings)
    assert tune.call_count == 2  # by the study, which keeps what it has read, and by `evaluate`
    assert dynamics.load_dynamic(directory, "network")[2] > 0


@pytest.mark.long
def test_quality_compares_ours_with_peers(directory, monkeypatch):
    tuned = TunedDynamics(DynamicSettings(chunk=8, rate=0.5), [], 2.0, 1.0, 10, 3)
    monkeypatch.setattr(LanguageModel, "tune_dynamic", Mock(return_value=tuned))
    monkeypatch.setattr(quality, "make_rows", Mock())
    row = {"name": "network", "title": "ours", "command": "train"}
    sizes = dict(width=64, batch=2, length=48, cutoffs=[7], seconds=2, rate=0.01, dropout=0.1)
    peers = [{**peer, **sizes} for peer in quality.GROUPS[0]["peers"]]
    monkeypatch.setattr(quality, "GROUPS", [{"rows": [row], "peers": peers}])
    report = quality.REPORT.measure(Settings(Mock(), directory=directory))
    ours, *others = report["rows"]
    static = LanguageModel.load(directory / "rows" / "network").evaluate("test")["perplexity"]
    assert ours["test"] == pytest.approx(static)
    assert ours["cache"]["validation"] <= 1.01 * ours["validation"]
    assert [row["name"] for row in others] == ["PyTorch LSTM", "PyTorch Transformer"]
    assert "| ours | " in quality.REPORT.format_table(report)
    if not importlib.util.find_spec("torch"):
        assert all("No module named 'torch'" in row["failure"] for row in others)
        pytest.skip("torch is not installed: it takes gigabytes (extra [benchmark])")
    for peer in others:
        assert peer["ratio_to_ours"]["static"] == peer["test"] / ours["test"]
        assert peer["dynamic"]["validation"] <= 1.01 * peer["validation"]
    again = quality.REPORT.measure(Settings(Mock(), directory=directory))
    assert again["rows"][1:] == others  # kept
