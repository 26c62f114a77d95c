"""The study of small subword models on a small network."""

import math

import pytest

from keras_nplm import Configuration, LanguageModel, open_corpus, train
from keras_nplm.data.subwords import SubwordOptions
from keras_nplm.experiments.studies import phones
from keras_nplm.training.configuration import CONFIGURATIONS

pytestmark = pytest.mark.long


def test_bits_per_character_are_those_of_the_test_split(tmp_path, monkeypatch):
    for package in ("ai_edge_litert", "tf2onnx", "onnxruntime"):
        pytest.importorskip(package, reason=f"{package} is needed")
    (tmp_path / "text.txt").write_text("".join(f"das ist {'ein ' * (i % 3)}Satz {i % 5}.\n" for i in range(200)))
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], tokenizer="sentencepiece", subwords=SubwordOptions(310))
    options = dict(order=3, averages_after="", embedding_dim=8, hidden_units=8, epochs=1)
    train(Configuration(**options), corpus, tmp_path / "small")
    language_model = LanguageModel.load(tmp_path / "small")
    lines = phones.read_lines(language_model)
    assert lines == (tmp_path / "text.txt").read_text().split("\n")[180:-1]
    figures = phones.measure_model("small", language_model, lines)
    expected = language_model.evaluate("test")
    assert figures["bits_per_character"] == pytest.approx(expected["bits_per_character"], rel=1e-5)
    assert [file["format"] for file in figures["files"]] == ["LiteRT", "LiteRT, 8 bits", "ONNX", "ONNX, 8 bits"]
    for file in figures["files"]:
        bits = math.log2(file["perplexity"]) * expected["tokens"] / expected["characters"]
        assert file["bits_per_character"] == pytest.approx(bits)
        assert file["bits_per_character"] == pytest.approx(expected["bits_per_character"], rel=0.02)
    monkeypatch.setattr(phones, "_TOKENS", 30)
    assert lines[: len(phones.read_lines(language_model))] == phones.read_lines(language_model) != lines
    full = {"title": "full", "parameters": 9, "bits_per_character": 1.0}
    assert phones.format_report({"models": [figures | {"full_size": full}]}).count("\n") == 8


def test_the_configuration_fits_two_megabytes():
    phone = CONFIGURATIONS["phone"]
    assert 4000 * (phone.embedding_dim + phone.hidden_units) < 1.3e6  # a byte a weight
