"""Commands, their output and their exit status."""

import contextlib
import io
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
    monkeypatch.setattr(os, "replace", end)
    before = signal.getsignal(signal.SIGTERM)
    assert message in run("train --train text.txt --output m --config small", status=status).err
    assert signal.getsignal(signal.SIGTERM) == before


def test_an_unexpected_error_has_a_traceback(monkeypatch):
    monkeypatch.setattr(os, "replace", None)
    with pytest.raises(TypeError):
        main("ngram --train text.txt --output m".split())


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


def test_a_named_configuration_says_how_it_reads_text(run, text, tmp_path):
    options = "--config bengio2003 --min-count 1 --background none"  # refused after the text
    said = run(f"train --train {text} --output {tmp_path / 'model'} {options}", status=2).err
    flags = "--boundary stream --set vocabulary_scope=corpus"
    announced = f"bengio2003 reads text by {flags}: flags override it.\n"
    assert said.startswith(announced)
    for command in ("ngram", "prepare"):
        line = f"{command} --train {text} --output {tmp_path / command} --config bengio2003"
        assert run(f"{line} --min-count 1").err == announced


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


ARPA = """\\data\\
ngram 1=4

\\1-grams:
-99\t<s>
-0.5\t</s>
-0.6\twood
-0.8\t{}

\\end\\
"""
FILES = {
    "new": "the cat sat\n\nzyzzyva\n",
    "marked": f"<s> {TEXT.strip()} </s>\n" * 2,
    "closed": "wood\nwood dog\n",
    "dots.arpa": ARPA.format("U.S."),
    "plain.arpa": ARPA.format("US"),
}
# lines that Moses or a treebank has tokenised, and one with marks of its own
TOKENISED = {"end": "</s>", "clitic": "the cat 's", "usual": "It's <b> a 's' @-@x"}
for _name, _line in TOKENISED.items():
    FILES[_name] = f"{TEXT * 20}{_line}\n{_line}\n"
    FILES[f"{_name}.nbest"] = f"0 ||| a ||| ||| -1\n0 ||| {_line} ||| ||| -1\n"
LINES = [
    "score ngrams new",
    "score ngrams new --no-header",
    "score ngrams new --tokens",
    "score ngrams new --tokens --json",
    "evaluate ngrams --text text.txt --accuracy --by-order",
    "evaluate ngrams --text text.txt --accuracy --by-order --json",
    # text that is tokenised already
    "ngram --train end --output end-words",
    "ngram --train end --tokenizer whitespace --output end-spaces",
    "score ngrams end.nbest",
    "rescore ngrams end.nbest",
    "ngram --train clitic --output clitic-words",
    "ngram --train clitic --tokenizer whitespace --output clitic-spaces",
    "score ngrams clitic.nbest",
    "rescore ngrams clitic.nbest",
    "ngram --train usual --output usual-words",
    "score ngrams usual.nbest",
    # a text with markers is warned of where it is scored, and refused where it is evaluated
    "ngram --train text.txt --tokenizer whitespace --min-count 1 --output spaces",
    "score spaces marked",
    "evaluate spaces --text marked",
    # an ARPA file has one tokenizer in all commands
    "ngram --arpa dots.arpa --output dots",
    "evaluate dots --text closed",
    "ngram --arpa plain.arpa --output plain",
    "evaluate plain --text closed",
    "evaluate plain.arpa --text closed",
    "ngram --arpa dots.arpa --tokenizer words --output given",
]


def test_what_commands_print(capsys, messages):
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    for line in LINES:
        main(line.split())
        printed = capsys.readouterr()
        messages.add(f"{line}\n{printed.out}{printed.err}")
    tokenizers = [read_json(f"{name}/config.json")["tokenizer"] for name in ("dots", "plain")]
    assert [*tokenizers, read_json("given/config.json")["tokenizer"]] == [
        "whitespace", "whitespace", "words",
    ]  # fmt: skip
