"""Commands on models of subwords: text in, whole words and text out, and contradicting flags
refused.
"""

import json

import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json

LINES = [
    "the cat sat on the mat",
    "the dogs sat",
    "a cat's mats: 3, 33",
    "我们可以 我们",
    "Straße ОЙ",
] * 20


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(text):
    _estimate(text, text.parent / "model")
    return text.parent / "model"


def _estimate(text, output, *flags: str, command: str = "ngram") -> None:
    common = [
        "--train",
        str(text),
        "--tokenizer",
        "sentencepiece",
        "--order",
        "3",
        "--output",
        str(output),
    ]
    assert main([command, *common, *(flags or ["--pieces", "330"])]) == 0


def _run(capsys, *words) -> dict:
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_ngram_model_of_subwords_answers_in_words(model, capsys):
    config = read_json(model / "config.json")
    assert (config["tokenizer"], config["pieces"], config["pieces_kind"]) == (
        "sentencepiece",
        330,
        "unigram",
    )
    assert read_json(model / "metrics.json")["test"]["unk_tokens"] == 0
    assert next(iter(_run(capsys, "complete", model, "the cat")["the cat"])) == "sat"
    assert "我们" in "".join(_run(capsys, "complete", model, "我们可以 ")["我们可以 "])
    generated = _run(capsys, "generate", model, "--prompt", "the cat ", "--num-words", 9)
    assert generated["whole"].startswith("the cat ") and "▁" not in generated["whole"]
    assert generated["whole"] == ("the cat " + generated["text"]).rstrip()
    figures = _run(capsys, "evaluate", model, "--text", model.parent / "text.txt")
    scores = _run(capsys, "score", model, model.parent / "text.txt")["sentences"]
    assert figures["log_prob"] == pytest.approx(
        sum(score["log_prob"] for score in scores), rel=1e-6
    )


def test_the_subwords_of_a_model_can_be_used_again(model, text, tmp_path, capsys):
    _estimate(text, tmp_path / "bpe", "--set", "pieces_kind=bpe", "--pieces", "330")
    _estimate(text, tmp_path / "same", "--pieces-file", str(model / "sentencepiece.model"))
    same = LanguageModel.load(tmp_path / "same")
    assert same.vocabulary == LanguageModel.load(model).vocabulary
    assert "crc32" in read_json(tmp_path / "same" / "config.json")["pieces_file"]
    assert (
        main(["mix", str(model), str(tmp_path / "same"), "--output", str(tmp_path / "mixed")]) == 0
    )
    assert (
        main(["mix", str(model), str(tmp_path / "bpe"), "--output", str(tmp_path / "wrong")]) == 2
    )
    assert "must have the same vocabulary" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.usefixtures("no_logs")
def test_a_network_of_subwords_is_trained_and_reported(text, tmp_path, capsys):
    flags = (
        "--pieces 330 --embedding-dim 8 --hidden-units 8 --config small --epochs 1 "
        "--set shortlist_size=20"
    ).split()
    _estimate(text, tmp_path / "model", *flags, command="train")
    capsys.readouterr()
    report = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Continuations</h2>" in report and "bits per character" in report
    assert not any(
        "▁" in word for word in _run(capsys, "complete", tmp_path / "model", "the cat")["the cat"]
    )
    counts = LanguageModel.load(tmp_path / "model").corpus.frequencies()
    # the short-list has the most frequent subwords
    assert counts[4:24].min() >= counts[24:].max() - 1
