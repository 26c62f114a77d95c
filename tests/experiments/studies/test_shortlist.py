"""The study of short-lists on a small text."""

import json

import numpy as np
import pytest

import keras_nplm.experiments.studies.shortlist as study
from keras_nplm import Configuration, LanguageModel, evaluate, open_corpus, train
from keras_nplm.experiments.rows import Row


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A short-list of 20 words, trained on a small text."""
    path = tmp_path_factory.mktemp("shortlist")
    rng = np.random.default_rng(0)
    lines = (" ".join(f"w{i}" for i in rng.zipf(1.3, 9) % 60) for _ in range(400))
    (path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    small = Configuration(
        order=3, embedding_dim=4, hidden_units=4, epochs=1, batch_size=128, min_count=1, shortlist_size=20
    )
    train(small, open_corpus(train=[str(path / "text.txt")]), path / "model")
    return path / "model"


@pytest.mark.long
def test_report_has_the_figures_of_the_models(directory, tmp_path, monkeypatch):
    language_model = LanguageModel.load(directory)
    parts = language_model.vocabulary, language_model.tokenizer_name, language_model.boundary
    background = LanguageModel(language_model.model.background, *parts)
    background.save(tmp_path / study.BACKGROUND)
    for name in (study.FULL, "listed"):
        (tmp_path / name).symlink_to(directory)
    rows = [Row(name, name, "train") for name in (study.FULL, study.BACKGROUND, "listed")]
    for name, value in {"ROWS": rows, "_WARM_UP": 1, "_UPDATES": 2, "_ROUNDS": 1, "use_one_core": lambda: None}.items():
        monkeypatch.setattr(study, name, value)
    report = json.loads(json.dumps(study.measure(tmp_path)))
    listed, ids = report["rows"][2], language_model.corpus.ids("test")
    assert listed["test"] == pytest.approx(evaluate(language_model.model, ids)["perplexity"])
    mixed, alone = listed["mixed"], [listed["validation"], report["rows"][1]["validation"]]
    assert mixed["validation"] <= 1.005 * min(alone) and 0 < mixed["weight"] < 1  # the prior of the weights costs 0.1%
    train_ids = language_model.corpus.ids("train")
    assert listed["ngrams_an_epoch"] == np.count_nonzero(train_ids < 24)
    table = study.format_report(report).splitlines()
    assert len(table) == 5 and all(line.count("|") == 10 for line in table)
    assert f"{np.mean(ids < 24):.1%}" in table[-1] and f"{listed['trained_per_second']:,} (" in table[-1]
