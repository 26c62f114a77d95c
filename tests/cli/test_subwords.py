"""Commands on models of subwords: text in, whole words and text out, and contradicting flags refused."""

import json

import numpy as np
import pytest

from keras_nplm import LanguageModel
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json

LINES = ["the cat sat on the mat", "the dogs sat", "a cat's mats: 3, 33", "我们可以 我们", "Straße ОЙ"] * 20


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("subwords") / "text.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(text):
    _estimate(text, text.parent / "model")
    return text.parent / "model"


def _estimate(text, output, *flags: str) -> None:
    command = ["ngram", "--train", str(text), "--tokenizer", "sentencepiece", "--order", "3", "--output", str(output)]
    assert main([*command, *(flags or ["--pieces", "330"])]) == 0


def _run(capsys, *words) -> dict:
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_ngram_model_of_subwords_answers_in_words(model, capsys):
    config = read_json(model / "config.json")
    assert (config["tokenizer"], config["pieces"], config["pieces_kind"]) == ("sentencepiece", 330, "unigram")
    assert read_json(model / "metrics.json")["test"]["unk_tokens"] == 0
    assert next(iter(_run(capsys, "complete", model, "the cat")["the cat"])) == "sat"
    assert "我们" in "".join(_run(capsys, "complete", model, "我们可以 ")["我们可以 "])
    generated = _run(capsys, "generate", model, "--prompt", "the cat ", "--num-words", 9)
    assert generated["whole"].startswith("the cat ") and "▁" not in generated["whole"]
    assert generated["whole"] == ("the cat" + generated["text"]).strip()
    figures = _run(capsys, "evaluate", model, "--text", model.parent / "text.txt")
    scores = _run(capsys, "score", model, model.parent / "text.txt")["sentences"]
    assert figures["log_prob"] == pytest.approx(sum(score["log_prob"] for score in scores), rel=1e-6)
    assert figures["unk_tokens"] == 0


def test_a_saved_model_has_its_subwords(model, tmp_path):
    language_model = LanguageModel.load(model)
    language_model.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "sentencepiece.model").read_bytes() == (model / "sentencepiece.model").read_bytes()
    assert LanguageModel.load(tmp_path / "copy").vocabulary == language_model.vocabulary


def test_the_subwords_of_a_model_can_be_used_again(model, text, tmp_path, capsys):
    _estimate(text, tmp_path / "bpe", "--pieces-kind", "bpe", "--pieces", "330")
    _estimate(text, tmp_path / "same", "--pieces-file", str(model / "sentencepiece.model"))
    same = LanguageModel.load(tmp_path / "same")
    assert same.vocabulary == LanguageModel.load(model).vocabulary
    assert "crc32" in read_json(tmp_path / "same" / "config.json")["pieces_file"]
    capsys.readouterr()
    assert main(["mix", str(model), str(tmp_path / "same"), "--output", str(tmp_path / "mixed")]) == 0
    assert LanguageModel.load(tmp_path / "mixed").vocabulary == same.vocabulary
    assert main(["mix", str(model), str(tmp_path / "bpe"), "--output", str(tmp_path / "wrong")]) == 2
    assert "must have the same vocabulary" in capsys.readouterr().err


def test_an_arpa_file_of_subwords_is_read_with_their_vocabulary(model, tmp_path, capsys):
    assert main(["export", str(model), str(tmp_path / "x.arpa"), "--format", "arpa"]) == 0
    command = ["ngram", "--arpa", str(tmp_path / "x.arpa"), "--tokenizer", "sentencepiece"]
    assert main([*command, "--vocabulary", str(model / "vocabulary.txt"), "--output", str(tmp_path / "read")]) == 0
    scores = [[*LanguageModel.load(path).score(LINES[:5])] for path in (model, tmp_path / "read")]
    np.testing.assert_allclose(*([score.log_prob for score in listed] for listed in scores), rtol=1e-4)
    capsys.readouterr()
    assert main([*command, "--output", str(tmp_path / "words")]) == 2
    assert "needs a vocabulary with subwords" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--pieces", "400"], "`--pieces` must be left out without subwords"),
        (["--pieces-kind", "bpe"], "`--pieces-kind` must be left out without subwords"),
        (["--pieces-file", "x.model"], "`--pieces-file` must be left out without subwords"),
        (["--tokenizer", "sentencepiece", "--pieces", "299"], "300 or more"),
        (["--tokenizer", "sentencepiece", "--min-count", "2"], "`--min-count` cannot be combined with subwords"),
        (["--tokenizer", "sentencepiece", "--max-size", "2"], "`--max-size` cannot be combined with subwords"),
        (["--tokenizer", "sentencepiece", "--token", "character"], "cannot be combined with `--token character`"),
        (["--tokenizer", "sentencepiece", "--normalise", "lemmas"], "no step but +lower"),
        (
            ["--tokenizer", "sentencepiece", "--pieces-file", "x.model", "--pieces", "400"],
            "`--pieces` cannot be combined with `--pieces-file`",
        ),
        (["--tokenizer", "sentencepiece", "--pieces-file", "absent.model"], "absent.model"),
    ],
)
def test_contradicting_flags_are_refused(text, tmp_path, capsys, flags, message):
    assert main(["ngram", "--train", str(text), "--output", str(tmp_path / "model"), *flags]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("damage", ["absent", "cut", "flip", "words"])
def test_a_damaged_model_of_subwords_is_refused(model, tmp_path, capsys, damage):
    LanguageModel.load(model).save(tmp_path / "model")
    path = tmp_path / "model" / "sentencepiece.model"
    data = path.read_bytes()
    if damage == "words":
        path = tmp_path / "model" / "vocabulary.txt"
        data = path.read_bytes()
        path.write_bytes(data.replace(b"<0x00>", b"<0x00x>"))
    elif damage == "absent":
        path.unlink()
    else:
        path.write_bytes(data[:900] if damage == "cut" else data[:900] + bytes([data[900] ^ 4]) + data[901:])
    assert main(["complete", str(tmp_path / "model"), "the"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Traceback" not in error and path.name in error
