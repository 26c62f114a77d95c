"""The study of models that learn as they read, on a small text."""

import dataclasses
import json
import os
import time

import numpy as np
import pytest

import keras_nplm.experiments.studies.dynamic as study
from keras_nplm import Configuration, LanguageModel, evaluate, open_corpus, train
from keras_nplm.experiments.log_probs import load_dynamic_log_probs
from keras_nplm.language_model.dynamics import save_dynamics
from keras_nplm.models.dynamic import DynamicSettings, TunedDynamics
from keras_nplm.training.estimate import estimate


@pytest.mark.long
def test_report_has_the_figures_of_the_models(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    lines = (" ".join(f"w{i}" for i in rng.zipf(1.3, 9) % 60) for _ in range(400))
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = open_corpus(train=[str(tmp_path / "text.txt")])
    small = Configuration(order=3, embedding_dim=4, hidden_units=4, epochs=1, batch_size=128, min_count=1)
    small = dataclasses.replace(small, boundary="stream")
    rows = tmp_path / "rows"
    for seed, name in enumerate(study._NETWORKS):
        train(dataclasses.replace(small, seed=seed), corpus, rows / name)
    text = dict(boundary="stream", min_count=1)
    estimate("kneser-ney", corpus, rows / "kneser-ney-5", order=3, **text)
    estimate("class-based", corpus, rows / "class-500-3", order=3, num_classes=5, **text)
    settings = DynamicSettings(chunk=8, rate=0.5)
    save_dynamics(rows / study._NETWORKS[0], TunedDynamics(settings, None, 2.0, 1.0, 10, 3))
    monkeypatch.setattr(study, "_LENGTH", 30)
    report = json.loads(json.dumps(study.measure(rows)))
    by_title = {row["title"]: row for row in report["mixtures"]}
    first = LanguageModel.load(rows / study._NETWORKS[0])
    ids = first.corpus.ids("test")
    assert by_title["one network"]["test"] == pytest.approx(evaluate(first.model, ids)["perplexity"])
    dynamic = first.evaluate("test", dynamic=True)["dynamic"]["perplexity"]
    assert by_title["one network, dynamic"]["test"] == pytest.approx(dynamic)
    whole = by_title["three seeds, dynamic, n-grams, classes, caches"]
    assert len(whole["weights"]) == 8 and sum(whole["weights"]) == pytest.approx(1, abs=1e-3)
    assert whole["validation"] <= 1.01 * by_title["three seeds, dynamic"]["validation"]
    without = {row["title"]: row["test"] for row in report["ablation"]}
    assert without["two seeds"] == by_title["one network, dynamic, n-grams, classes, caches"]["test"]
    table = study.format_report(report)
    assert "chunks of 8, rate 0.5, rule sgd" in table
    assert table.count("\n| ") == len(report["mixtures"]) + len(report["ablation"]) + 2
    for trained_again in (False, True):  # a seed that is trained again is read again
        capsys.readouterr()
        load_dynamic_log_probs(tmp_path, study._NETWORKS[1], study._NETWORKS[0])
        assert ("computing log-probabilities" in capsys.readouterr().err) == trained_again
        later = time.time() + 60
        os.utime(rows / study._NETWORKS[1] / "metrics.json", (later, later))
