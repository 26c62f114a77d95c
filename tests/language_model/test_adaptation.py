"""`LanguageModel.adapt` and the command `adapt`."""

import json

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary
from keras_nplm.cli.main import main


def test_last_lines_are_held_out(monkeypatch):
    vocabulary, seen = Vocabulary(["the", "cat", "sat", "on", "mat", "dog"]), {}
    general = LanguageModel(NPLM(len(vocabulary), order=3, embedding_dim=3), vocabulary, "words")

    def record(network, train_ids, held_out_ids, boundary, **options):
        seen.update(train=train_ids.tolist(), held_out=held_out_ids.tolist(), boundary=boundary, **options)
        return network, None

    monkeypatch.setattr("keras_nplm.models.adaptation.adapt_network", record)
    general.adapt(iter(["the cat", "", "the dog", "a dog sat"]), held_out=0.3, epochs=4, seed=5)
    expected = {"train": [4, 5, 3, 4, 9, 3], "held_out": [1, 9, 6, 3]}
    assert seen == expected | {"boundary": "sentence", "epochs": 4, "seed": 5}
    general.adapt(["the cat"] * 2, held_out=0.99)
    assert seen["train"] == seen["held_out"] == [4, 5, 3]  # a line remains to learn from


def test_adapt_command_writes_a_model_directory(model_directory, tmp_path, capsys):
    output, text = tmp_path / "personal", tmp_path / "mine.txt"
    lines = ["the value of the list is returned"] * 30
    text.write_text("\n".join([*lines, "the zyzzyva is"]), encoding="utf-8")
    command = ["adapt", str(model_directory), "--text", str(text), "--output", str(output), "--epochs", "1", "--json"]
    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    chosen = result["adaptation"]
    assert chosen["after"] < chosen["before"]
    assert (chosen["tokens"], chosen["held_out_tokens"], chosen["held_out_unk_tokens"]) == (28 * 8, 2 * 8 + 4, 1)
    metrics = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert metrics | {"directory": str(output)} == result
    general, personal = LanguageModel.load(model_directory), LanguageModel.load(output)
    assert personal.evaluate([*lines[:2], "the zyzzyva is"])["perplexity"] == pytest.approx(chosen["after"], rel=1e-5)
    ids = np.asarray(general.corpus.ids("validation"))
    for when, model in {"before": general, "after": personal}.items():
        assert metrics["old_validation"][when] == pytest.approx(model.evaluate(ids)["perplexity"], rel=1e-5)
