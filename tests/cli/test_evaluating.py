"""`evaluate` and `score` of ARPA files, and of several models in a table."""

import os
import re
import shutil
import sys

import pytest

from keras_nplm.cli.main import main

NEW_TEXT = "the cat sat on the dog\na bird sat on the mat\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory, text):
    """Model directories of one text, with different tokens, and texts; see `read`."""
    directory = tmp_path_factory.mktemp("models")
    plain = f"ngram --train {text} --min-count 1 --order 3 --output {directory}"
    options = {
        "words": "",
        "bigrams": "--order 2",
        "rare": "--min-count 20",
        "characters": "--token character",
        "lower": "--normalise lower",
        "stream": "--boundary stream",
    }
    for name, flags in options.items():
        assert main(f"{plain}/{name} {flags}".split()) == 0
    assert main(f"export {directory}/words {directory}/words.arpa.gz".split()) == 0
    texts = {
        "new": NEW_TEXT,
        "marks": "the cat, on the mat.\n",
        "tokenised": "the do n't cat\n",
        "foreign": "der Hund\n",
        "known": "the cat\n",
    }
    for name, lines in texts.items():
        (directory / f"{name}.txt").write_text(lines, encoding="utf-8")
    return directory


@pytest.fixture
def read(models, run, monkeypatch):
    """Function that runs a command in the directory of the models: the lines that it prints."""
    monkeypatch.chdir(models)

    def read(command: str) -> list[str]:
        return run(command).out.splitlines()

    return read


def test_an_arpa_file_is_evaluated_and_scored_like_its_model(read):
    arpa = read("evaluate words.arpa.gz --text new.txt --by-order")
    directory = read("evaluate words --text new.txt --by-order")
    assert arpa == directory
    assert read("score words.arpa.gz new.txt") == read("score words new.txt")


def test_an_arpa_file_has_the_tokenizer_of_its_text(read):
    given = "--text marks.txt --tokenizer words"
    arpa = read(f"evaluate words.arpa.gz {given}")
    assert arpa[:2] == read("evaluate words --text marks.txt")[:2]
    assert arpa[:2] != read("evaluate words.arpa.gz --text marks.txt")[:2]
    scores = read("score words.arpa.gz marks.txt --tokenizer words")
    assert scores == read("score words marks.txt")
    assert "not comparable" not in str(read(f"evaluate words words.arpa.gz {given}"))
    lines = read("evaluate words words.arpa.gz --text marks.txt")
    assert "--tokenizer whitespace (words.arpa.gz)" in lines[-1]


def test_what_cannot_be_evaluated_is_refused(models, read, run, text, messages):
    (models / "kenlm.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    shutil.copytree(models / "words", models / "bare", ignore=lambda *_: ["corpus"])
    (models / "other.txt").write_text("a bird sat\n" * 20, encoding="utf-8")
    read("ngram --train other.txt --min-count 1 --order 2 --output other")
    for line in (
        "evaluate words --tokenizer words",  # a directory has its own
        "evaluate words.arpa.gz",  # it has no text
        "evaluate words words.arpa.gz",
        "evaluate words.arpa.gz --text new.txt --dynamic",  # it does not learn
        "score words.arpa.gz new.txt --dynamic",
        "evaluate none.arpa --text new.txt",
        "evaluate new.txt --text new.txt",
        "evaluate words/ngrams.npz --text new.txt",
        "evaluate words/corpus --text new.txt",
        "evaluate kenlm.bin --text new.txt",
        "evaluate words bigrams --text new.txt --accuracy",
        "evaluate words bigrams --text new.txt --dynamic",
        "evaluate words other",  # models of different texts
        "evaluate words bare",  # a model without its text
    ):
        (error,) = run(line, status=2).err.splitlines()
        messages.add(error.replace(str(text), text.name))


def test_an_arpa_file_is_compared_with_the_spelling_model_of_its_words(read, ask):
    read("export rare rare.arpa")
    comparison = "evaluate rare.arpa rare --text new.txt"
    lines = read(comparison)
    file, directory = (line.split()[1:] for line in lines[2:4])
    alone = read("evaluate rare.arpa --text new.txt")[1].split()[1:]
    assert file == directory != alone
    assert ask(f"{comparison} --tokenizer words")["not_comparable"] == []
    assert ask("evaluate rare.arpa words.arpa.gz --text new.txt")["not_comparable"] == [
        "Perplexities and tokens are not comparable: vocabulary of 4 (rare.arpa), vocabulary of "
        "6 (words.arpa.gz)."
    ]
    assert read("evaluate words.arpa.gz rare --text new.txt")[-1] == (
        "Bits per character and byte are not comparable: no directory has the words of "
        "words.arpa.gz, and a spelling model of <unk>."
    )


def test_models_of_the_same_tokens_are_compared_without_a_note(read):
    first, header, *rows = read("evaluate words bigrams --text new.txt")
    assert first == "new.txt:"
    columns = ["bits per character", "bits per byte", "perplexity", "tokens", "<unk>"]
    assert re.split(" {2,}", header.strip()) == columns
    assert [row.split()[0] for row in rows] == ["words", "bigrams"]
    assert rows[0].split()[1:] != rows[1].split()[1:]
    _, alone = read("evaluate bigrams --text new.txt")
    assert alone.split() == ["new.txt", *rows[1].split()[1:]]


@pytest.mark.parametrize(
    "other, reason",
    [
        ("rare", "vocabulary of 6 (words), vocabulary of 4 (rare)."),
        ("characters", "--tokenizer words (words), --token character (characters); vocab"),
        (
            "words.arpa.gz",
            "--tokenizer words (words), --tokenizer whitespace (words.arpa.gz).",
        ),
        ("stream", "--boundary sentence (words), --boundary stream (stream)."),
        ("lower", "no --normalise (words), --normalise lower (lower)."),
    ],
)
def test_models_of_different_tokens_are_compared_with_the_reason(read, other, reason):
    lines = read(f"evaluate words {other} --text new.txt --all")
    assert "per word" in lines[1] and "without <unk>" in lines[1]
    assert any(
        line.startswith(f"Perplexities and tokens are not comparable: {reason}") for line in lines
    )
    of_text = {"lower": "of the normalised text.", "stream": "leave out the ends of lines."}
    has_bits = lines[-1].startswith("Bits per character and byte are not comparable: with --")
    assert has_bits == (other in of_text) == lines[-1].endswith(of_text.get(other, "none"))


def test_a_comparison_is_json(read, ask):
    result = ask("evaluate words characters bigrams --text new.txt")
    assert [row["model"] for row in result["models"]] == ["words", "characters", "bigrams"]
    (reason,) = result["not_comparable"]
    assert reason.startswith("Perplexities and tokens are not comparable: --tokenizer words")
    alone = ask("evaluate bigrams --text new.txt")
    row = {**result["models"][2], "text": "new.txt"}
    assert {name: row[name] for name in alone} == alone
    assert ask("evaluate words bigrams")["not_comparable"] == []


def test_models_of_one_text_are_compared_on_its_split(read):
    first, _, *rows = read("evaluate words characters --split validation")
    assert first == "validation split:"
    alone = read("evaluate words --split validation")[1]
    assert alone.split() == ["validation", "split", *rows[0].split()[1:]]
    read("mix words bigrams --weights .5 .5 --output mixture")
    assert [row.split()[0] for row in read("evaluate words mixture")[2:]] == ["words", "mixture"]


def test_several_models_read_a_pipe_and_standard_input(read, run, monkeypatch):
    end, other_end = os.pipe()
    os.write(other_end, NEW_TEXT.encode())
    os.close(other_end)
    pipe = f"/dev/fd/{end}"  # as a shell gives it for `<(COMMAND)`
    expected = read("evaluate words bigrams --text new.txt")[1:]
    assert read(f"evaluate words bigrams --text {pipe}")[1:] == expected
    error = run(f"evaluate {pipe} --text new.txt", status=2).err
    assert f"Cannot read {pipe}: it is a directory, a device or a pipe. Fix: name a" in error
    os.close(end)
    with open("new.txt", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert read("evaluate words bigrams --text -")[1:] == expected


def test_a_tokenised_text_has_one_warning_for_several_models(models, run, monkeypatch):
    monkeypatch.chdir(models)
    warnings = run("evaluate words bigrams stream --text tokenised.txt").err
    assert warnings.count("The text is tokenised already") == 1


@pytest.mark.parametrize("other", ["", " words"])
def test_a_text_of_unknown_words_has_a_warning(models, run, monkeypatch, other):
    monkeypatch.chdir(models)
    warnings = run(f"evaluate bigrams{other} --text foreign.txt").err.splitlines()
    assert len(warnings) == 1 + len(other.split())
    assert warnings[0].startswith(
        "Warning: 67% of the tokens are out of the vocabulary of bigrams (<unk>), so that the "
        "perplexity looks good. Fix: compare bits per character"
    )
    assert not run(f"evaluate bigrams{other} --text known.txt").err
