"""`LanguageModel.adapt` and the command `adapt`."""

import json

import numpy as np
import pytest

from keras_nplm import LanguageModel


@pytest.mark.long
def test_adapt_command_writes_a_model_directory(model_directory, tmp_path, ask):
    output = tmp_path / "personal"
    text = tmp_path / "mine.txt"
    lines = ["the value of the list is returned"] * 30
    text.write_text("\n".join([*lines, "the zyzzyva is"]), encoding="utf-8")
    command = ["adapt", str(model_directory), "--text", str(text), "--output", str(output)]
    result = ask(*command, "--epochs", "1")
    chosen = result["adaptation"]
    sizes = [chosen[name] for name in ("tokens", "held_out_tokens", "held_out_unk_tokens")]
    assert sizes == [28 * 8, 2 * 8 + 4, 1] and chosen["after"] < chosen["before"]
    metrics = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert metrics | {"directory": str(output)} == result
    general = LanguageModel.load(model_directory)
    personal = LanguageModel.load(output)
    scopes = [model.codec.vocabulary_scope for model in (general, personal)]
    assert scopes == ["train", "train"]
    found = personal.evaluate([*lines[:2], "the zyzzyva is"])["perplexity"]
    assert found == pytest.approx(chosen["after"], rel=1e-5)
    ids = np.asarray(general.corpus.ids("validation"))
    for when, model in {"before": general, "after": personal}.items():
        expected = model.evaluate(ids)["perplexity"]
        assert metrics["old_validation"][when] == pytest.approx(expected, rel=1e-5)
