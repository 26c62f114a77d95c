"""`evaluate` and `score` of ARPA files, and of several models in a table."""

import io
import json
import os
import re
import shutil
import sys

import pytest

from keras_nplm.cli.main import main

NEW_TEXT = "the cat sat on the dog\na bird sat on the mat\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory, text):
    """Model directories of one text, with different tokens, and an ARPA file of one of them."""
    directory = tmp_path_factory.mktemp("models")
    plain = ["ngram", "--train", str(text), "--min-count", "1", "--order", "3"]
    options = {
        "words": [],
        "bigrams": ["--order", "2"],
        "rare": ["--min-count", "20"],
        "characters": ["--token", "character"],
        "lower": ["--normalise", "lower"],
        "stream": ["--boundary", "stream"],
    }
    for name, flags in options.items():
        assert main([*plain, *flags, "--output", str(directory / name)]) == 0
    assert main(["export", str(directory / "words"), str(directory / "words.arpa.gz")]) == 0
    (directory / "new.txt").write_text(NEW_TEXT, encoding="utf-8")
    return directory


@pytest.fixture
def run(models, capsys, monkeypatch):
    """Function that runs a command in the directory of the models: its lines, or its error or
    warnings.
    """

    def run(command: str, status: int = 0, warnings: bool = False) -> list[str]:
        monkeypatch.chdir(models)
        capsys.readouterr()
        assert main(command.split()) == status
        captured = capsys.readouterr()
        return (captured.err if status or warnings else captured.out).splitlines()

    return run


def test_an_arpa_file_is_evaluated_and_scored_like_its_model(run):
    arpa = run("evaluate words.arpa.gz --text new.txt --by-order")
    directory = run("evaluate words --text new.txt --by-order")
    assert arpa[0] == directory[0]
    assert "a model of the words of words.arpa.gz spells the 2 <unk>." in arpa[1]
    assert arpa[2:] == directory[1:]
    assert run("score words.arpa.gz new.txt") == run("score words new.txt")


def test_an_arpa_file_has_the_tokenizer_of_its_text(run, models):
    (models / "marks.txt").write_text("the cat, on the mat.\n", encoding="utf-8")
    given = " --tokenizer words"
    arpa = run(f"evaluate words.arpa.gz --text marks.txt{given}")
    assert arpa[0] == run("evaluate words --text marks.txt")[0]
    assert arpa[0] != run("evaluate words.arpa.gz --text marks.txt")[0]
    assert run(f"score words.arpa.gz marks.txt{given}") == run("score words marks.txt")
    lines = run(f"evaluate words words.arpa.gz --text marks.txt{given}")
    assert not any("not comparable" in line for line in lines)
    assert "add `--tokenizer words`" in run("evaluate words words.arpa.gz --text marks.txt")[-1]


@pytest.mark.parametrize("command", ["evaluate words", "score words new.txt"])
def test_a_directory_has_its_own_tokenizer(run, command):
    (error,) = run(f"{command} --tokenizer words", status=2)
    assert "`--tokenizer` must be left out with a model directory" in error


def test_an_arpa_file_is_compared_with_the_spelling_model_of_its_words(run):
    comparison = "evaluate words.arpa.gz words --text new.txt"
    lines = run(comparison)
    file, directory = (line.split()[1:] for line in lines[2:4])
    assert file == directory
    assert lines[4] == (
        "bits per character of words.arpa.gz: the spelling model of words, which has the same "
        "words, spells the 2 <unk>."
    )
    assert json.loads(run(f"{comparison} --tokenizer words --json")[0])["not_comparable"] == []
    assert run("evaluate words.arpa.gz rare --text new.txt")[-1] == (
        "Bits per character of words.arpa.gz are not exactly comparable: no directory here has the "
        "same words, and with them a spelling model of <unk>."
    )


def test_an_arpa_file_needs_a_text(run):
    (error,) = run("evaluate words.arpa.gz", status=2)
    assert "`--text` must be given with an ARPA file, which holds no text of its own" in error
    assert error.endswith("Fix: add --text FILE, the text to evaluate.")


@pytest.mark.parametrize(
    "command", ["evaluate words.arpa.gz --text new.txt", "score words.arpa.gz new.txt"]
)
def test_an_arpa_file_does_not_learn(run, command):
    (error,) = run(f"{command} --dynamic", status=2)
    assert "`--dynamic` cannot be combined with an ARPA file" in error


@pytest.mark.parametrize(
    "path, message",
    [
        pytest.param("none", "none, which does not exist. Fix: train a model", id="nothing"),
        pytest.param("none.arpa", "does not exist. Fix: check the name.", id="no file"),
        pytest.param("new.txt", "new.txt, a file without the line \\data\\. Fix:", id="a text"),
        pytest.param("words/ngrams.npz", "a file without the line \\data\\", id="a binary file"),
        pytest.param("words/corpus", "a directory without config.json. Fix:", id="a directory"),
        pytest.param("kenlm.bin", "a binary file of KenLM. Fix: name the ARPA", id="KenLM's own"),
    ],
)
def test_a_path_that_is_no_model_is_refused(run, models, path, message):
    (models / "kenlm.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    (error,) = run(f"evaluate {path} --text new.txt", status=2)
    assert "`MODEL` must be a model directory or an ARPA file. Received: " in error
    assert message in error


def test_models_of_the_same_tokens_are_compared_without_a_note(run):
    first, header, *rows = run("evaluate words bigrams --text new.txt")
    assert first == "new.txt:"
    columns = ["bits per character", "bits per byte", "perplexity", "tokens", "<unk>"]
    assert re.split(" {2,}", header.strip()) == columns
    assert [row.split()[0] for row in rows] == ["words", "bigrams"]
    assert rows[0].split()[1:] != rows[1].split()[1:]
    alone = run("evaluate bigrams --text new.txt")[0]
    bits, of_bytes, perplexity, tokens, unknown = rows[1].split()[1:]
    assert alone.endswith(
        f"perplexity {perplexity} over {tokens} tokens, {unknown} of them <unk>, {bits} bits per "
        f"character, {of_bytes} bits per byte"
    )


@pytest.mark.parametrize(
    "other, reason",
    [
        ("rare", "--min-count 1 (words), --min-count 20 (rare)."),
        ("characters", "--tokenizer words (words), --token character (characters)."),
        ("words.arpa.gz", "--tokenizer words (words), --tokenizer whitespace (words.arpa.gz)."),
        ("stream", "--boundary sentence (words), --boundary stream (stream)."),
        ("lower", "no --normalise (words), --normalise lower (lower)."),
    ],
)
def test_models_of_different_tokens_are_compared_with_the_reason(run, other, reason):
    lines = run(f"evaluate words {other} --text new.txt --all")
    assert "per word" in lines[1] and "without <unk>" in lines[1]
    assert f"Perplexities and tokens are not comparable: {reason}" in lines
    is_normalised = any(
        "Bits per character and byte are not comparable either" in line for line in lines
    )
    assert is_normalised == (other == "lower")
    assert any("leave out the ends of lines" in line for line in lines) == (other == "stream")


def test_a_comparison_is_json(run):
    (line,) = run("evaluate words characters bigrams --text new.txt --json")
    result = json.loads(line)
    assert [row["model"] for row in result["models"]] == ["words", "characters", "bigrams"]
    (reason,) = result["not_comparable"]
    assert reason.startswith("Perplexities and tokens are not comparable: --tokenizer words")
    alone = json.loads(run("evaluate bigrams --text new.txt --json")[0])
    row = result["models"][2]
    assert {name: row[name] for name in alone if name != "text"} | {"text": "new.txt"} == alone
    assert json.loads(run("evaluate words bigrams --json")[0])["not_comparable"] == []


def test_models_of_one_text_are_compared_on_its_split(run):
    first, _, *rows = run("evaluate words characters --split validation")
    assert first == "validation split:"
    assert rows[0].split()[1] in run("evaluate words --split validation")[0]
    run("mix words bigrams --weights .5 .5 --output mixture")
    assert [row.split()[0] for row in run("evaluate words mixture")[2:]] == ["words", "mixture"]


def test_models_of_different_texts_need_a_text(run, models, text):
    shutil.copy(text, models / "copy.txt")
    run("ngram --train copy.txt --output copy")
    (error,) = run("evaluate words copy", status=2)
    assert "The test splits of words and copy must be of one text. Received: 'text " in error
    assert error.endswith("Fix: add --text FILE, a text for all models.")
    shutil.copytree(models / "words", models / "bare")
    shutil.rmtree(models / "bare" / "corpus")
    (error,) = run("evaluate words bare", status=2)
    assert "`--text` must be given, as bare has no corpus/" in error


@pytest.mark.parametrize(
    "flags, message",
    [
        ("--text new.txt --accuracy", "`--accuracy` cannot be combined with several models"),
        ("--text new.txt --dynamic", "`--dynamic` cannot be combined with several models"),
        ("--text -", "`--text` must be a regular file with several models"),
    ],
)
def test_what_several_models_cannot_have_is_refused(run, monkeypatch, flags, message):
    monkeypatch.setattr(sys, "stdin", io.StringIO(NEW_TEXT))
    (error,) = run(f"evaluate words bigrams {flags}", status=2)
    assert message in error


@pytest.fixture
def pipe():
    """The name of a pipe, as a shell gives it for `<(COMMAND)`."""
    end, other_end = os.pipe()
    os.close(other_end)
    yield f"/dev/fd/{end}"
    os.close(end)


def test_a_pipe_that_is_read_twice_is_refused(run, pipe):
    (error,) = run(f"evaluate words bigrams --text new.txt {pipe}", status=2)
    assert "`--text` must be a regular file with several models, which read it one" in error
    assert f"Received: {pipe}. Fix: save it to a file." in error
    (error,) = run(f"evaluate {pipe} --text new.txt", status=2)
    assert f"Cannot read {pipe}: it is a directory, a device or a pipe. Fix: name a" in error


def test_a_tokenised_text_has_one_warning_for_several_models(run, models):
    (models / "tokenised.txt").write_text("the do n't cat\n", encoding="utf-8")
    warnings = run("evaluate words bigrams stream --text tokenised.txt", warnings=True)
    assert "\n".join(warnings).count("The text is tokenised already") == 1


@pytest.mark.parametrize("other", ["", " words"])
def test_a_text_of_unknown_words_has_a_warning(run, models, other):
    (models / "foreign.txt").write_text("der Hund\n", encoding="utf-8")
    warnings = run(f"evaluate bigrams{other} --text foreign.txt", warnings=True)
    assert len(warnings) == 1 + len(other.split())
    assert warnings[0].startswith(
        "Warning: 67% of the tokens are out of the vocabulary of bigrams (<unk>), so that the "
        "perplexity looks good. Fix: compare bits per character"
    )
    (models / "known.txt").write_text("the cat\n", encoding="utf-8")
    assert run(f"evaluate bigrams{other} --text known.txt", warnings=True) == []
