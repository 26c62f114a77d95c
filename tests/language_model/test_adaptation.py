"""`LanguageModel.adapt` and the command `adapt`."""

import json

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.cli.main import main

LINES = ["the cat sat on the mat"] * 30


@pytest.fixture(scope="module")
def general() -> LanguageModel:
    vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat", "dog"])
    return LanguageModel(NPLM(len(vocabulary), order=3, embedding_dim=3, hidden_units=4), vocabulary, "words")


def test_last_lines_are_held_out(general, monkeypatch):
    seen = {}

    def record(network, train_ids, held_out_ids, boundary, **options):
        seen.update(train=train_ids.tolist(), held_out=held_out_ids.tolist(), boundary=boundary, **options)
        return network, None

    monkeypatch.setattr("keras_nplm.models.adaptation.adapt_network", record)
    general.adapt(iter(["the cat", "", "the dog", "a dog sat"]), held_out=0.3, epochs=4, seed=5)
    expected = {"train": [4, 5, 3, 4, 9, 3], "held_out": [1, 9, 6, 3]}
    assert seen == expected | {"boundary": "sentence", "epochs": 4, "seed": 5}
    general.adapt(["the cat"] * 2, held_out=0.99)
    assert seen["train"] == seen["held_out"] == [4, 5, 3]  # a line remains to learn from


def test_adapt_command_writes_a_model_directory(general, tmp_path, capsys):
    output, text = tmp_path / "personal", tmp_path / "mine.txt"
    general.save(tmp_path / "general")
    text.write_text("\n".join([*LINES, "the bird sat"]), encoding="utf-8")
    command = ["adapt", str(tmp_path / "general"), "--text", str(text), "--output", str(output), "--epochs", "2"]
    assert main([*command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    chosen = result["adaptation"]
    assert chosen["after"] < chosen["before"]
    assert (chosen["tokens"], chosen["held_out_tokens"], chosen["held_out_unk_tokens"]) == (28 * 7, 2 * 7 + 4, 1)
    metrics = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert metrics | {"directory": str(output)} == result and "old_validation" not in metrics  # it has no corpus
    personal = LanguageModel.load(output).evaluate([*LINES[:2], "the bird sat"])
    assert personal["perplexity"] == pytest.approx(chosen["after"], rel=1e-5)
    assert main(command) == 2  # the output exists
    assert "already holds a model" in capsys.readouterr().err


@pytest.mark.long
def test_old_validation_text_is_measured_again(model_directory, tmp_path, capsys):
    text = tmp_path / "mine.txt"
    text.write_text("\n".join(["the value of the list is returned"] * 50), encoding="utf-8")
    assert main(["adapt", str(model_directory), "--text", str(text), "--output", str(tmp_path / "mine"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    general, personal = (LanguageModel.load(path) for path in (model_directory, tmp_path / "mine"))
    ids = np.asarray(general.corpus.ids("validation"))
    assert result["old_validation"]["before"] == pytest.approx(general.evaluate(ids)["perplexity"], rel=1e-5)
    assert result["old_validation"]["after"] == pytest.approx(personal.evaluate(ids)["perplexity"], rel=1e-5)
