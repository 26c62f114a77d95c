"""Commands, their output and their exit status."""

import contextlib
import io
import json
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from keras_nplm.cli.main import main
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_json

pytestmark = pytest.mark.usefixtures("files")
TEXT = "the cat sat on the mat\n"

NETWORK = "--order 7 --set averages_after=2,4 --embedding-dim 8 --hidden-units 8 --epochs 1"


@pytest.fixture(scope="module")
def trained(tmp_path_factory, text):
    """A network trained by the command, and the object that it prints."""
    directory = tmp_path_factory.mktemp("networks") / "model"
    options = f"{NETWORK} --direct-connections --min-count 1 --tokenizer whitespace --json"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(f"train --train {text} --output {directory} {options}".split()) == 0
    return directory, json.loads(output.getvalue())  # standard output has nothing else


@pytest.fixture
def give(monkeypatch):
    """Function that makes a text standard input."""

    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def test_train_writes_a_model_directory_and_evaluate_repeats_its_figures(trained, ask):
    directory, result = trained
    assert result["validation"]["perplexity"] < 9
    config = read_json(directory / "config.json")
    assert (config["order"], config["boundary"]) == (7, "sentence")
    assert config["head"]["direct_connections"] is True
    repeated = ask(f"evaluate {directory} --split validation")
    assert repeated.pop("text") == "validation split"
    assert repeated == result["validation"]
    figures = ask(f"evaluate {directory} --text text.txt")
    assert figures["tokens"] == 280
    size = f"size {NETWORK} --direct-connections --vocabulary-size 10 --tokens 100"
    counts = ask(size)
    assert counts["parameters"] == result["parameters"]
    assert counts["flops_of_all_epochs"] == 100 * counts["flops_training"]


def test_complete_and_generate_with_a_network(trained, run):
    directory, _ = trained
    complete = run("complete", directory, "the cat", "The", "--top-k", 3).out
    assert len(complete.splitlines()) == 8
    generate = f"generate {directory} --num-words 9 --seed 4 --prompt The"
    first, second = run(generate).out, run(generate).out
    assert first == second and len(first.split()) == 10


def test_score_and_evaluate_read_standard_input(run, ask, give):
    for flags in ("", "- --no-header"):
        give("the cat sat\n\nzyzzyva\n")
        lines = run(f"score ngrams {flags}").out.splitlines()
        rows = [line.split("\t") for line in lines]
        if not flags:
            assert rows.pop(0) == ["ln P (nats)", "tokens", "<unk>"]
        # a blank line is no sentence
        assert [row[1:] for row in rows] == [["4", "0"], ["0", "0"], ["2", "1"]]
        assert [float(row[0]) < 0 for row in rows] == [True, False, True]
    give("the cat sat\n\n  \nthe dog\n")
    figures = ask("evaluate ngrams --text -")
    give("the cat sat\n\n  \nthe dog\n")
    scores = ask("score ngrams -")["sentences"]
    total = sum(score["log_prob"] for score in scores)
    assert total == pytest.approx(figures["log_prob"], rel=1e-5)
    assert sum(score["tokens"] for score in scores) == figures["tokens"] == 7


def test_score_lists_tokens(run, ask, give):
    give("the zyzzyva\n\n")
    lines = run("score ngrams --tokens").out.splitlines()
    columns, *rows = [line.split("\t") for line in lines]
    assert columns == ["token", "ln P (nats)", "order", "sentence"]
    assert [(row[0], row[3]) for row in rows] == [("the", "1"), ("zyzzyva", "1"), ("</s>", "1")]
    assert rows[1][2] == "<unk>" and 1 <= int(rows[0][2]) <= 2
    give("the zyzzyva\n\n")
    sentences = ask("score ngrams --tokens")["sentences"]
    tokens = [token for sentence in sentences for token in sentence]
    assert [f"{token['log_prob']:.4f}" for token in tokens] == [row[1] for row in rows]
    assert [token["is_unknown"] for token in tokens] == [False, True, False]


def test_a_program_may_be_asked_for_its_version(run):
    captured = run("--version")
    assert captured.out.startswith("keras-nplm ") and not captured.err


def fail(*args, **kwargs):
    raise RunError("The loss became nan.")


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def interrupt_within_a_library(*args, **kwargs):
    try:
        raise KeyboardInterrupt
    finally:
        # TensorFlow's context managers do so, and h5py within a file that is read
        raise InputError


def drop_a_signal(*args, **kwargs):
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    raise TypeError("an attribute was not found")


RESUME = "Run the same command again to resume"


@pytest.mark.parametrize(
    "end, status, message",
    [
        (fail, 1, "keras-nplm train: The loss became nan.\n"),
        (interrupt, 130, RESUME),
        (interrupt_within_a_library, 130, RESUME),
        (drop_a_signal, 130, "interrupted"),
    ],
)
def test_a_run_that_ends_early_has_a_status_and_a_message(end, status, message, run, monkeypatch):
    monkeypatch.setattr("keras_nplm.training.train.train", end)
    before = signal.getsignal(signal.SIGTERM)
    line = f"train --train text.txt --output m {NETWORK}"
    assert message in run(line, status=status).err
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_unexpected_error_has_a_traceback(monkeypatch):
    monkeypatch.setattr("keras_nplm.LanguageModel.load", None)
    with pytest.raises(TypeError):
        main(["complete", "ngrams", "the"])


def test_a_closed_pipe_ends_a_command_quietly(capfd, monkeypatch):
    class ClosedPipe(io.TextIOBase):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return sys.__stderr__.fileno()

    monkeypatch.setattr("os.dup2", lambda *descriptors: None)
    monkeypatch.setattr("sys.stdout", ClosedPipe())
    assert main(["complete", "ngrams", "the"]) == 1
    assert not capfd.readouterr().err


def test_streams_that_are_not_utf8_get_replacement_characters(monkeypatch):
    for flags, expected in (([], b"caf?"), (["--json"], rb"caf\u00e9")):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        assert main(["complete", "ngrams", "café", *flags]) == 0
        assert expected in sys.stdout.buffer.getvalue()


def test_a_closed_stream_is_no_error(monkeypatch):
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}", None)
        file = [] if stream == "stdin" else ["ngrams/vocabulary.txt"]
        assert main(["score", "ngrams", *file]) in (0, 2)
        getattr(sys, stream).close()
        monkeypatch.undo()


def test_a_pipe_is_read_where_once_suffices(run):
    os.mkfifo("pipe")
    for command in ("evaluate ngrams --text", "score ngrams"):
        writer = threading.Thread(target=Path("pipe").write_text, args=(TEXT,))
        writer.start()
        run(f"{command} pipe")
        writer.join()
    error = run("ngram --train pipe --output m", status=2).err
    assert "pipe: it is a directory, a device or a pipe. Fix: name a regular file" in error


TOKENISED = ["</s>", "the cat 's"]  # the others: tests/data/test_unusual_text.py


@pytest.mark.parametrize("line", [*TOKENISED, "It's <b> a 's' @-@x"])
def test_text_that_is_tokenised_already_is_noticed(capsys, line):
    Path("text").write_text(f"{TEXT * 20}{line}\n{line}\n", encoding="utf-8")
    hypothesis = line.replace("&", "&amp;")  # as Moses escapes it
    Path("nbest").write_text(f"0 ||| a ||| ||| -1\n0 ||| {hypothesis} ||| ||| -1\n")
    remedy = "by `sed" if line == "</s>" else "`--tokenizer whitespace`"
    is_tokenised = line in TOKENISED
    for command in ("ngram --train text --output m", "score ngrams text", "rescore ngrams nbest"):
        main(command.split())
        assert capsys.readouterr().err.count(remedy) == is_tokenised, command
    main("ngram --train text --output m2 --tokenizer whitespace".split())
    reserved = "reserved token </s>: each line is a sentence" in capsys.readouterr().err
    assert reserved == (line == "</s>")


def test_markers_are_noticed_where_a_text_is_scored(run):
    Path("text").write_text(TEXT * 20, encoding="utf-8")
    run("ngram --train text --output m --tokenizer whitespace --min-count 1")
    Path("marked").write_text(f"<s> {TEXT.strip()} </s>\n" * 2, encoding="utf-8")
    error = run("score m marked").err
    assert error.count("Warning: The text holds <s>, which counts as text") == 1
    # one that is refused needs no warning
    error = run("evaluate m --text marked", status=2).err
    assert "The text holds the reserved token" in error and "Warning" not in error


@pytest.mark.parametrize(
    "word, flags, tokenizer",
    [("U.S.", "", "whitespace"), ("US", "", "words"), ("U.S.", "--tokenizer words", "words")],
)
def test_an_arpa_model_gets_the_tokenizer_of_its_words(run, word, flags, tokenizer):
    unigrams = f"-99\t<s>\n-0.5\t</s>\n-0.6\twood\n-0.8\t{word}\n"
    Path("k.arpa").write_text(f"\\data\\\nngram 1=4\n\n\\1-grams:\n{unigrams}\n\\end\\\n")
    run(f"ngram --arpa k.arpa --output k {flags}")
    assert read_json("k/config.json")["tokenizer"] == tokenizer
    Path("text").write_text("wood\nwood dog\n")
    error = run("evaluate k --text text", status=2).err
    assert "The vocabulary of the model is closed: " in error and "'dog'" in error


def test_complete_and_generate_use_the_starter_model(run, ask):
    contexts = ["The value of the", "If the object is"]
    assert [*ask("complete", *contexts)] == contexts
    words = ask("complete 'The val' --prefix --top-k 1")
    assert [*words["The val"]] == ["value"]
    shown = run("complete", "The VAL", "The zebr", "--prefix")
    assert "VALUE" in shown.out
    assert "No word of the vocabulary begins with 'zebr'." in shown.err
    shown = run("generate --num-words 3 --prompt 'The value'")
    assert shown.out.startswith("The value ") and "starter model" in shown.err
    # longer than a file name may be
    assert "the value of the" in run("complete", "the value of the " * 30).out


def test_accuracy_and_figures_by_order_are_reported_on_request(run, ask):
    command = "evaluate ngrams --text text.txt --accuracy --by-order"
    figures = ask(command)
    assert 0.5 < figures["accuracy"] < 1
    assert sum(row["tokens"] for row in figures["orders"]) == figures["tokens"]
    printed = run(command).out
    assert printed.splitlines()[1].endswith(f"{figures['accuracy']:.2%}")
    first = figures["orders"][0]
    assert f"order {first['order']}  {first['tokens']:>6,}  {first['perplexity']:>10.2f}" in printed
