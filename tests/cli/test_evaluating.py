"""`evaluate` and `score` of ARPA files, and of several models in a table."""

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
    assert arpa[:2] == directory[:2]
    assert "a model of the words of words.arpa.gz spells the 2 <unk>." in arpa[2]
    assert arpa[3:] == directory[2:]
    assert run("score words.arpa.gz new.txt") == run("score words new.txt")


def test_an_arpa_file_has_the_tokenizer_of_its_text(run, models):
    (models / "marks.txt").write_text("the cat, on the mat.\n", encoding="utf-8")
    given = " --tokenizer words"
    arpa = run(f"evaluate words.arpa.gz --text marks.txt{given}")
    assert arpa[:2] == run("evaluate words --text marks.txt")[:2]
    assert arpa[:2] != run("evaluate words.arpa.gz --text marks.txt")[:2]
    assert run(f"score words.arpa.gz marks.txt{given}") == run("score words marks.txt")
    lines = run(f"evaluate words words.arpa.gz --text marks.txt{given}")
    assert not any("not comparable" in line for line in lines)
    assert "add `--tokenizer words`" in run("evaluate words words.arpa.gz --text marks.txt")[-1]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("evaluate words --tokenizer words", id="a directory has a tokenizer"),
        pytest.param("score words new.txt --tokenizer words", id="so it has for score"),
        pytest.param("evaluate words.arpa.gz", id="an ARPA file has no text"),
        pytest.param("evaluate words words.arpa.gz", id="nor beside a directory"),
        pytest.param("evaluate words.arpa.gz --text new.txt --dynamic", id="nor does it learn"),
        pytest.param("score words.arpa.gz new.txt --dynamic", id="nor from sentences"),
        pytest.param("evaluate none --text new.txt", id="nothing"),
        pytest.param("evaluate none.arpa --text new.txt", id="no file"),
        pytest.param("evaluate new.txt --text new.txt", id="a text"),
        pytest.param("evaluate words/ngrams.npz --text new.txt", id="a binary file"),
        pytest.param("evaluate words/corpus --text new.txt", id="a directory without a model"),
        pytest.param("evaluate kenlm.bin --text new.txt", id="a file of KenLM's own"),
        pytest.param("evaluate words bigrams --text new.txt --accuracy", id="several, accuracy"),
        pytest.param("evaluate words bigrams --text new.txt --dynamic", id="several, dynamic"),
        pytest.param("evaluate words other", id="models of different texts"),
        pytest.param("evaluate words bare", id="a model without its text"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(run, models, text, messages, command):
    (models / "kenlm.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    if not (models / "bare").exists():
        shutil.copytree(models / "words", models / "bare", ignore=lambda *_: ["corpus"])
        (models / "other.txt").write_text("a bird sat\n" * 20, encoding="utf-8")
        run("ngram --train other.txt --min-count 1 --order 2 --output other")
    (error,) = run(command, status=2)
    messages.add(error.replace(str(text), text.name))


def test_an_arpa_file_is_compared_with_the_spelling_model_of_its_words(run):
    run("export rare rare.arpa")
    comparison = "evaluate rare.arpa rare --text new.txt"
    lines = run(comparison)
    file, directory = (line.split()[1:] for line in lines[2:4])
    alone = run("evaluate rare.arpa --text new.txt")[1].split()[1:]
    assert file == directory != alone
    assert lines[4] == (
        "bits per character of rare.arpa: the spelling model of rare, which has the same words, "
        "spells the 4 <unk>."
    )
    assert json.loads(run(f"{comparison} --tokenizer words --json")[0])["not_comparable"] == []
    assert run("evaluate words.arpa.gz rare --text new.txt")[-1] == (
        "Bits per character and byte are not comparable: no directory has the words of "
        "words.arpa.gz, and a spelling model of <unk>."
    )


def test_models_of_the_same_tokens_are_compared_without_a_note(run):
    first, header, *rows = run("evaluate words bigrams --text new.txt")
    assert first == "new.txt:"
    columns = ["bits per character", "bits per byte", "perplexity", "tokens", "<unk>"]
    assert re.split(" {2,}", header.strip()) == columns
    assert [row.split()[0] for row in rows] == ["words", "bigrams"]
    assert rows[0].split()[1:] != rows[1].split()[1:]
    _, alone = run("evaluate bigrams --text new.txt")
    assert alone.split() == ["new.txt", *rows[1].split()[1:]]


@pytest.mark.parametrize(
    "other, reason",
    [
        ("rare", "--min-count 1 (words), --min-count 20 (rare)."),
        ("characters", "--tokenizer words (words), --token character (characters)."),
        (
            "words.arpa.gz",
            "--tokenizer words (words), --tokenizer whitespace (words.arpa.gz), unless you add "
            "`--tokenizer words` for the ARPA file.",
        ),
        ("stream", "--boundary sentence (words), --boundary stream (stream)."),
        ("lower", "no --normalise (words), --normalise lower (lower)."),
    ],
)
def test_models_of_different_tokens_are_compared_with_the_reason(run, other, reason):
    lines = run(f"evaluate words {other} --text new.txt --all")
    assert "per word" in lines[1] and "without <unk>" in lines[1]
    assert f"Perplexities and tokens are not comparable: {reason}" in lines
    of_text = {"lower": "of the normalised text.", "stream": "leave out the ends of lines."}
    has_bits = lines[-1].startswith("Bits per character and byte are not comparable: with --")
    assert has_bits == (other in of_text) == lines[-1].endswith(of_text.get(other, "none"))


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
    alone = run("evaluate words --split validation")[1]
    assert alone.split() == ["validation", "split", *rows[0].split()[1:]]
    run("mix words bigrams --weights .5 .5 --output mixture")
    assert [row.split()[0] for row in run("evaluate words mixture")[2:]] == ["words", "mixture"]


@pytest.fixture
def pipe():
    """The name of a pipe with a text, as a shell gives it for `<(COMMAND)`."""
    end, other_end = os.pipe()
    os.write(other_end, NEW_TEXT.encode())
    os.close(other_end)
    yield f"/dev/fd/{end}"
    os.close(end)


def test_several_models_read_a_pipe_and_standard_input(run, pipe, monkeypatch):
    expected = run("evaluate words bigrams --text new.txt")[1:]
    assert run(f"evaluate words bigrams --text {pipe}")[1:] == expected
    with open("new.txt", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert run("evaluate words bigrams --text -")[1:] == expected


def test_a_model_is_no_pipe(run, pipe):
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
