"""Commands, their output, their errors and their exit status."""

import contextlib
import io
import json
import os
import signal
import sys
import threading

import pytest

from keras_nplm.cli.main import main
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_json

TEXT = "the cat sat on the mat\n"

NETWORK = "--order 7 --set averages_after=2,4 --embedding-dim 8 --hidden-units 8 --epochs 1".split()


def _run(capsys, *arguments) -> str:
    assert main([*map(str, arguments)]) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def trained(tmp_path_factory, text):
    """A network trained by the command, and the object that it prints."""
    directory = tmp_path_factory.mktemp("networks") / "model"
    options = [
        *NETWORK,
        "--direct-connections",
        "--min-count",
        "1",
        "--tokenizer",
        "whitespace",
        "--json",
    ]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(["train", "--train", str(text), "--output", str(directory), *options]) == 0
    return directory, json.loads(output.getvalue())  # standard output has nothing else


def test_train_writes_a_model_directory_and_evaluate_repeats_its_figures(trained, text, capsys):
    directory, result = trained
    assert result["validation"]["perplexity"] < 9
    config = read_json(directory / "config.json")
    assert (config["order"], config["direct_connections"], config["boundary"]) == (
        7,
        True,
        "sentence",
    )
    repeated = json.loads(_run(capsys, "evaluate", directory, "--split", "validation", "--json"))
    assert repeated.pop("text") == "validation split"
    assert repeated == result["validation"]
    assert "perplexity" in _run(capsys, "evaluate", directory)
    assert (
        json.loads(_run(capsys, "evaluate", directory, "--text", text, "--json"))["tokens"] == 280
    )
    size = [
        "size",
        *NETWORK,
        "--direct-connections",
        "--vocabulary-size",
        10,
        "--tokens",
        100,
        "--json",
    ]
    size = json.loads(_run(capsys, *size))
    assert (
        size["parameters"] == result["parameters"]
        and size["flops_of_all_epochs"] == 100 * size["flops_training"]
    )


def test_complete_and_generate_with_a_network(trained, capsys):
    directory, _ = trained
    assert (
        len(_run(capsys, "complete", directory, "the cat", "The", "--top-k", 3).splitlines()) == 8
    )
    generate = [
        _run(capsys, "generate", directory, "--num-words", 9, "--seed", 4, "--prompt", "The")
        for _ in range(2)
    ]
    assert generate[0] == generate[1] and len(generate[0].split()) == 10


@pytest.mark.parametrize("no_header", [[], ["--no-header"]], ids=["header", "no header"])
@pytest.mark.parametrize("file", [[], ["-"]], ids=["no file", "-"])
def test_score_reads_standard_input(ngram_directory, capsys, monkeypatch, file, no_header):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat sat\n\nzyzzyva\n")))
    printed = _run(capsys, "score", ngram_directory, *file, *no_header).splitlines()
    rows = [line.split("\t") for line in printed]
    if not no_header:
        assert rows.pop(0) == ["ln P (nats)", "tokens", "<unk>"]
    # a blank line is no sentence
    assert [row[1:] for row in rows] == [["4", "0"], ["0", "0"], ["2", "1"]]
    assert [float(row[0]) < 0 for row in rows] == [True, False, True]


def test_evaluate_reads_standard_input_as_score_does(ngram_directory, capsys, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(
            "sys.stdin", io.TextIOWrapper(io.BytesIO(b"the cat sat\n\n  \nthe dog\n"))
        )
        return json.loads(_run(capsys, *arguments, "--json"))

    figures = run("evaluate", ngram_directory, "--text", "-")
    scores = run("score", ngram_directory, "-")["sentences"]
    assert sum(score["log_prob"] for score in scores) == pytest.approx(
        figures["log_prob"], rel=1e-5
    )
    assert sum(score["tokens"] for score in scores) == figures["tokens"] == 7


def test_score_lists_tokens(ngram_directory, capsys, monkeypatch):
    def run(*options):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the zyzzyva\n\n")))
        return _run(capsys, "score", ngram_directory, "--tokens", *options)

    columns, *rows = [line.split("\t") for line in run().splitlines()]
    assert columns == ["token", "ln P (nats)", "order", "sentence"]
    sentences = json.loads(run("--json"))["sentences"]
    assert [(row[0], row[3]) for row in rows] == [("the", "1"), ("zyzzyva", "1"), ("</s>", "1")]
    assert rows[1][2] == "<unk>" and 1 <= int(rows[0][2]) <= 2
    tokens = [token for sentence in sentences for token in sentence]
    assert [f"{token['log_prob']:.4f}" for token in tokens] == [row[1] for row in rows]
    assert [token["is_unknown"] for token in tokens] == [False, True, False]


@pytest.mark.parametrize("flag", ["--version", "--help", "-h"])
def test_a_program_may_be_asked_for_its_version_or_help(capsys, flag):
    assert main([flag]) == 0
    captured = capsys.readouterr()
    assert "keras-nplm" in captured.out and not captured.err


def test_an_unexpected_error_has_a_traceback(ngram_directory, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("keras_nplm.LanguageModel.load", fail)
    with pytest.raises(ZeroDivisionError):
        main(["complete", str(ngram_directory), "the"])


def test_a_runtime_failure_has_status_1(tmp_path, text, capsys, monkeypatch):
    def fail(*args, **kwargs):
        raise RunError("The loss became nan.")

    monkeypatch.setattr("keras_nplm.training.train.train", fail)
    assert main(["train", "--train", str(text), "--output", str(tmp_path / "m"), *NETWORK]) == 1
    assert capsys.readouterr().err == "keras-nplm train: The loss became nan.\n"


@pytest.mark.parametrize("hidden_by", [KeyboardInterrupt, InputError])
def test_an_interrupted_run_says_how_to_resume(tmp_path, text, capsys, monkeypatch, hidden_by):
    def interrupt(*args, **kwargs):
        try:
            raise KeyboardInterrupt
        finally:
            # TensorFlow's context managers do so, and h5py within a file that is read
            raise hidden_by

    monkeypatch.setattr("keras_nplm.training.train.train", interrupt)
    assert main(["train", "--train", str(text), "--output", str(tmp_path / "m"), *NETWORK]) == 130
    assert "Run the same command again to resume" in capsys.readouterr().err.splitlines()[-1]


def test_an_interruption_that_a_library_drops_ends_the_command(tmp_path, text, capsys, monkeypatch):
    def drop(*args, **kwargs):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        raise TypeError("an attribute was not found")

    monkeypatch.setattr("keras_nplm.training.train.train", drop)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert (
            main(["train", "--train", str(text), "--output", str(tmp_path / "m"), *NETWORK]) == 130
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "interrupted" in capsys.readouterr().err


def test_a_closed_pipe_ends_a_command_quietly(ngram_directory, capfd, monkeypatch):
    class ClosedPipe(io.TextIOBase):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            return sys.__stderr__.fileno()

    def ignore(*descriptors):
        pass

    monkeypatch.setattr("os.dup2", ignore)
    monkeypatch.setattr("sys.stdout", ClosedPipe())
    assert main(["complete", str(ngram_directory), "the"]) == 1
    assert not capfd.readouterr().err


def test_streams_that_are_not_utf8_get_replacement_characters(ngram_directory, monkeypatch):
    for flags, expected in (([], b"caf?"), (["--json"], rb"caf\u00e9")):
        monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        assert main(["complete", str(ngram_directory), "café", *flags]) == 0
        assert expected in sys.stdout.buffer.getvalue()


def test_a_closed_stream_is_no_error(ngram_directory, monkeypatch):
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}", None)
        file = [] if stream == "stdin" else [str(ngram_directory / "vocabulary.txt")]
        assert main(["score", str(ngram_directory), *file]) in (0, 2)
        getattr(sys, stream).close()
        monkeypatch.undo()


def test_a_backend_without_tensorflow_is_refused(ngram_directory, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert main(["complete", str(ngram_directory), "the"]) == 2
    assert "`KERAS_BACKEND` must be tensorflow. Received: 'jax'. Fix: " in capsys.readouterr().err


def test_a_pipe_is_read_where_once_suffices(tmp_path, ngram_directory, capsys):
    os.mkfifo(tmp_path / "pipe")
    for command in (["evaluate", ngram_directory, "--text"], ["score", ngram_directory]):
        writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(TEXT,))
        writer.start()
        _run(capsys, *command, tmp_path / "pipe")
        writer.join()
    assert main(["ngram", "--train", str(tmp_path / "pipe"), "--output", str(tmp_path / "m")]) == 2
    assert (
        "pipe: it is a directory, a device or a pipe. Fix: name a regular file"
        in capsys.readouterr().err
    )


TOKENISED = ["<unk> sat", "</s>", "a @-@ b", "the cat 's", "&quot; hi", "wo@@ rd"]


@pytest.mark.parametrize("line", [*TOKENISED, "It's <b> a 's' @-@x"])
def test_text_that_is_tokenised_already_is_noticed(tmp_path, ngram_directory, capsys, line):
    (tmp_path / "text").write_text(f"{TEXT * 20}{line}\n{line}\n", encoding="utf-8")
    hypothesis = line.replace("&", "&amp;")  # as Moses escapes it
    (tmp_path / "nbest").write_text(f"0 ||| a ||| ||| -1\n0 ||| {hypothesis} ||| ||| -1\n")
    train = f"ngram --train {tmp_path}/text --output {tmp_path}/m"
    others = "score {} {}/text", "rescore {} {}/nbest"
    remedy = "by `sed" if line == "</s>" else "`--tokenizer whitespace`"
    for command in (train, *(other.format(ngram_directory, tmp_path) for other in others)):
        main(command.split())
        assert capsys.readouterr().err.count(remedy) == (line in TOKENISED), command
    main(f"{train}2 --tokenizer whitespace".split())
    assert ("reserved token </s>: each line is a sentence" in capsys.readouterr().err) == (
        line == "</s>"
    )


def test_markers_are_noticed_where_a_text_is_scored(tmp_path, capsys):
    (tmp_path / "text").write_text(TEXT * 20, encoding="utf-8")
    model = tmp_path / "m"
    _run(
        capsys,
        *["ngram", "--train", tmp_path / "text", "--tokenizer", "whitespace"],
        *["--output", model, "--min-count", "1"],
    )
    (tmp_path / "marked").write_text(f"<s> {TEXT.splitlines()[0]} </s>\n" * 2, encoding="utf-8")
    assert main(["score", str(model), str(tmp_path / "marked")]) == 0
    assert capsys.readouterr().err.count("Warning: The text holds <s>, which counts as text") == 1
    # one that is refused needs no warning
    assert main(["evaluate", str(model), "--text", str(tmp_path / "marked")]) == 2
    error = capsys.readouterr().err
    assert "The text holds the reserved token" in error and "Warning" not in error


@pytest.mark.parametrize(
    "word, flags, tokenizer",
    [("U.S.", "", "whitespace"), ("US", "", "words"), ("U.S.", "--tokenizer words", "words")],
)
def test_an_arpa_model_gets_the_tokenizer_of_its_words(tmp_path, capsys, word, flags, tokenizer):
    unigrams = f"-99\t<s>\n-0.5\t</s>\n-0.6\twood\n-0.8\t{word}\n"
    (tmp_path / "k.arpa").write_text(f"\\data\\\nngram 1=4\n\n\\1-grams:\n{unigrams}\n\\end\\\n")
    _run(capsys, "ngram", "--arpa", tmp_path / "k.arpa", "--output", tmp_path / "k", *flags.split())
    assert read_json(tmp_path / "k" / "config.json")["tokenizer"] == tokenizer
    (tmp_path / "text").write_text("wood\nwood dog\n")
    assert main(["evaluate", str(tmp_path / "k"), "--text", str(tmp_path / "text")]) == 2
    assert (
        "The vocabulary of the model is closed: " in (message := capsys.readouterr().err)
        and "'dog'" in message
    )


def test_complete_and_generate_use_the_starter_model(capsys):
    contexts = ["The value of the", "If the object is"]
    assert [*json.loads(_run(capsys, "complete", *contexts, "--json"))] == contexts
    words = json.loads(_run(capsys, "complete", "The val", "--prefix", "--top-k", 1, "--json"))[
        "The val"
    ]
    assert [*words] == ["value"]
    assert main(["complete", "The VAL", "The zebr", "--prefix"]) == 0
    shown = capsys.readouterr()
    assert "VALUE" in shown.out
    assert "No word of the vocabulary begins with 'zebr'." in shown.err
    assert main(["generate", "--num-words", "3", "--prompt", "The value"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("The value ") and "starter model" in shown.err


def test_a_context_longer_than_a_file_name_may_be_the_only_argument(capsys):
    assert main(["complete", "the value of the " * 30]) == 0
    assert "the value of the" in capsys.readouterr().out


def test_accuracy_and_figures_by_order_are_reported_on_request(ngram_directory, text, capsys):
    command = ["evaluate", str(ngram_directory), "--text", str(text), "--accuracy", "--by-order"]
    assert main([*command, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert 0.5 < figures["accuracy"] < 1
    assert sum(row["tokens"] for row in figures["orders"]) == figures["tokens"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].endswith(f"{figures['accuracy']:.2%}")
    first = figures["orders"][0]
    assert f"order {first['order']}  {first['tokens']:>6,}  {first['perplexity']:>10.2f}" in printed
