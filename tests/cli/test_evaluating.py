"""`evaluate` and `score` of ARPA files, and of several models in a table."""

import os
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


def test_an_arpa_file_and_its_import_read_one_text_alike(models, read):
    read("ngram --arpa words.arpa.gz --output imported")
    text, *_ = (models / "marks.txt").read_text().splitlines()
    (models / "nbest").write_text(f"0 ||| {text} ||| ||| -1\n")
    for line in (
        "score {} marks.txt",
        "score {} new.txt",
        "rescore {} nbest",
        "complete {} the",
        "generate {}",
        "export {} again.arpa",
    ):
        printed = read(line.format("words.arpa.gz"))
        assert [row.replace("words.arpa.gz", "imported") for row in printed] == read(
            line.format("imported")
        )


def test_what_cannot_be_evaluated_is_refused(models, read, run, text, messages):
    (models / "kenlm.bin").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    shutil.copytree(models / "words", models / "bare", ignore=lambda *_: ["corpus"])
    (models / "other.txt").write_text("a bird sat\n" * 20, encoding="utf-8")
    read("ngram --train other.txt --min-count 1 --order 2 --output other")
    read(f"prepare --train {text} --output text")
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
        "evaluate words absent",
        "evaluate words text",  # a prepared text
        "evaluate words new.txt",
    ):
        (error,) = run(line, status=2).err.splitlines()
        messages.add(error.replace(str(text), text.name))


def test_figures_of_a_model_do_not_depend_on_the_models_beside_it(read, ask):
    read("export rare beside.arpa")
    line = "evaluate {} --text new.txt --tokenizer words"
    alone = ask(line.format("beside.arpa"))
    for others in ("rare", "words rare characters"):
        for models in (f"beside.arpa {others}", f"{others} beside.arpa"):
            rows = {row["model"]: row for row in ask(line.format(models))["models"]}
            row = rows["beside.arpa"]
            assert {name: alone[name] for name in row.keys() - {"model"}} == {
                name: row[name] for name in row.keys() - {"model"}
            }


COMPARISONS = [
    "evaluate bigrams --text new.txt",
    "evaluate words bigrams --text new.txt",
    "evaluate words bigrams --json",
    "evaluate words characters --split validation",
    "evaluate words characters bigrams --text new.txt --json",
    "evaluate words mixture",
    # the spelling model of a file is of its words, that of a directory of its text
    "evaluate rare.arpa rare --text new.txt --tokenizer words",
    "evaluate rare.arpa --text new.txt",
    "evaluate words.arpa.gz rare --text new.txt",
    "evaluate rare.arpa words.arpa.gz --text new.txt --json",
    # one column says why, or several
    "evaluate words rare --text new.txt --all",
    "evaluate words characters --text new.txt --all",
    "evaluate words words.arpa.gz --text new.txt --all",
    "evaluate words stream --text new.txt --all",
    "evaluate words lower --text new.txt --all",
    # warnings
    "evaluate words bigrams stream --text tokenised.txt",
    "evaluate bigrams --text foreign.txt",
    "evaluate bigrams words --text foreign.txt",
    "evaluate bigrams words --text known.txt",
]


def test_figures_reasons_and_warnings_are_printed(models, read, run, messages):
    read("export rare rare.arpa")
    read("mix words bigrams --weights .5 .5 --output mixture")
    for line in COMPARISONS:
        printed = run(line)
        messages.add(f"{line}\n{printed.out}{printed.err}")


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
