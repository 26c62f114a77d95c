"""Networks of subwords: training, the report and short-lists."""

import json

import numpy as np
import pytest

from keras_nplm import InputError, LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json

pytestmark = pytest.mark.long
LINES = ["the cat sat on the mat", "the dogs sat", "a cat's mats: 3, 33", "我们可以 我们", "Straße ОЙ é"] * 30


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def _train(text, name: str, *flags: str) -> int:
    options = ["--order", "4", "--embedding-dim", "8", "--hidden-units", "8", "--config", "small", "--epochs", "2"]
    subwords = ["--tokenizer", "sentencepiece", "--pieces", "330"]
    return main(["train", "--train", str(text), *subwords, *options, "--output", str(text.parent / name), *flags])


@pytest.fixture(scope="module")
def model(text):
    assert _train(text, "model") == 0
    return text.parent / "model"


def test_a_network_of_subwords_is_trained_and_reported(model, text, capsys):
    metrics = read_json(model / "metrics.json")
    assert metrics["test"]["unk_tokens"] == 0 and metrics["test"]["bits_per_character"] > 0
    report = (model / "report.html").read_text(encoding="utf-8")
    assert "<h2>Continuations</h2>" in report and "bits per character" in report
    assert _train(text, "model") == 0  # finished: nothing to do
    assert read_json(model / "metrics.json") == metrics
    capsys.readouterr()
    assert _train(text, "model", "--pieces", "340") == 2
    assert "other options: pieces" in capsys.readouterr().err
    assert main(["complete", str(model), "the cat", "--json"]) == 0
    assert not any("▁" in word for word in json.loads(capsys.readouterr().out)["the cat"])
    language_model = LanguageModel.load(model)
    piece = next(word for word in language_model.vocabulary.words if word.startswith("▁") and len(word) > 1)
    assert len(language_model.nearest(piece[1:], top_k=3)) == 3
    with pytest.raises(InputError, match="must be one subword. Received: "):
        language_model.nearest("unbelievable")


def test_a_short_list_of_subwords_has_the_most_frequent_ones(text):
    assert _train(text, "short", "--shortlist-size", "20") == 0
    language_model = LanguageModel.load(text.parent / "short")
    counts = language_model.corpus.frequencies()
    assert counts[4:24].min() >= counts[24:].max() - 1
    (log_probs,) = language_model.model.next_log_probs(np.array([[2, 2, 2]]))
    np.testing.assert_allclose(np.exp(log_probs).sum(), 1, rtol=1e-4)
