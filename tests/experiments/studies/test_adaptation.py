"""The study of adaptation, on a small text."""

import json

import numpy as np
import pytest

import keras_nplm.experiments.studies.adaptation as study
from keras_nplm import Configuration, LanguageModel, open_corpus, train
from keras_nplm.models.ngrams import kneser_ney


def test_parts_have_the_texts_of_their_categories():
    texts = [[[f"t{number}", "a"], ["b"]] for number in range(500)]
    parts = study.divide_texts(texts)
    numbers = {name: [int(s[0][1:]) for s in sentences if len(s) == 2] for name, sentences in parts.items()}
    assert numbers["learned"] == list(range(462, 482))
    assert numbers["held_out"] == [482, 483, 484]
    assert numbers["new_test"] == list(range(485, 491))
    assert numbers["validation"][:2] == [8, 18] and numbers["test"][-1] == 369
    general = sorted(numbers["train"] + numbers["validation"] + numbers["test"])
    assert general == list(range(374))


def _write_texts(directory, random):
    """Write general texts of the words w0 … w29, and new texts of the same words in which the frequent ones differ."""
    directory.mkdir(parents=True)
    sizes = dict(train=400, validation=60, test=60, learned=150, held_out=60, new_test=60)
    for name, number in sizes.items():
        shift = 0 if name in ("train", "validation", "test") else 15
        lines = (" ".join(f"w{(i + shift) % 30}" for i in random.zipf(1.5, 9)) for _ in range(number))
        (directory / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.long
def test_report_has_the_figures_of_the_models(tmp_path):
    texts, rows = tmp_path / "texts" / "adaptation", tmp_path / "rows"
    _write_texts(texts, np.random.default_rng(0))
    small = Configuration(order=3, embedding_dim=4, hidden_units=8, epochs=2, batch_size=64, min_count=1)
    for row, names in zip(study.ROWS, (["train"], ["train", "learned", "held_out"]), strict=True):
        files = {"train": [str(texts / f"{name}.txt") for name in names]}
        files |= {split: [str(texts / f"{split}.txt")] for split in ("validation", "test")}
        train(small, open_corpus(**files), rows / row.name)
    report = json.loads(json.dumps(study.measure(rows)))
    general = LanguageModel.load(rows / study.ROWS[0].name)
    before, ngrams, mixed, adapted, both, again = report["rows"]
    lines = (texts / "new_test.txt").read_text(encoding="utf-8").splitlines()
    log_probs = [score.log_prob for score in general.score(lines)]
    tokens = sum(len(line.split()) + 1 for line in lines)
    assert report["tokens"]["new"] == tokens
    assert before["new"] == pytest.approx(np.exp(-sum(log_probs) / tokens), rel=1e-4)
    assert before["old"] == pytest.approx(general.evaluate("test")["perplexity"], rel=1e-4)
    learned = study._encode(rows, "learned", general.vocabulary)
    test = study._encode(rows, "new_test", general.vocabulary)
    of_test = study.compute_log_probs(kneser_ney(learned, len(general.vocabulary), 5, "sentence"), test, "sentence")
    assert ngrams["new"] == pytest.approx(np.exp(-of_test.mean()), rel=1e-6)
    assert report["tokens"]["learned"] == len(learned)
    assert max(adapted["new"], again["new"], mixed["new"]) < before["new"]
    assert both["new"] < 1.01 * min(adapted["new"], ngrams["new"])
    assert both["cpu_seconds"] == adapted["cpu_seconds"] + ngrams["cpu_seconds"]
    assert study.format_report(report).count("\n| ") == len(report["rows"]) + 1


def test_report_shows_changes():
    rows = [{"title": "a", "cpu_seconds": 0.0, "new": 100.0, "old": 50.0}]
    rows.append({"title": "b", "cpu_seconds": 0.25, "new": 80.0, "old": 60.0})
    chosen = {"rate": 0.1, "epochs": 3, "share": 0.5}
    report = {"rows": rows, "adaptation": chosen, "tokens": {"learned": 1234}, "unknown": 0.012}
    text = study.format_report(report)
    assert "| b | 80.0 | -20.0% | 60.0 | +20.0% | 0.25 |" in text
    assert "1,234 new tokens" in text and "1.2%" in text and "rate 0.1, 3 epochs, and 50%" in text
