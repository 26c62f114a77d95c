"""The command line as its users meet it: subprocesses for the main job, `main` in this process for each way to fail."""

import json
import subprocess
import sys

import pytest

from keras_nplm import __version__
from keras_nplm.cli.main import main
from keras_nplm.io.files import read_json

SMALL = "--order 3 --embedding-dim 8 --hidden-units 8 --epochs 1 --batch-size 256 --min-count 3".split()


def _run(*arguments, **options):
    command = [sys.executable, "-m", "keras_nplm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_the_main_job_end_to_end(tmp_path, capsys):
    directory = tmp_path / "model"
    train = _run("train", "--output", directory, "--json", *SMALL, "--direct-connections", "--max-size", 500)
    assert train.returncode == 0, train.stderr
    trained = json.loads(train.stdout)  # nothing else is on standard output
    assert trained["validation"]["perplexity"] < 120
    config = json.loads((directory / "config.json").read_text())
    assert (config["order"], config["direct_connections"], config["boundary"]) == (3, True, "sentence")

    score = _run("score", directory, input="The value is a string.\n\nzyzzyva\n")
    rows = [line.split("\t") for line in score.stdout.splitlines()]
    assert [row[1:] for row in rows] == [["7", "0"], ["1", "0"], ["2", "1"]]
    assert all(float(row[0]) < 0 for row in rows)

    def shown(*arguments):
        assert main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    assert json.loads(shown("evaluate", directory, "--split", "validation", "--json")) == trained["validation"]
    assert "perplexity" in shown("evaluate", directory)
    assert len(shown("complete", directory, "the value of", "This is", "--top-k", 3).splitlines()) == 8
    generate = [shown("generate", directory, "--num-words", 9, "--seed", 4, "--prompt", "The") for _ in range(2)]
    assert generate[0] == generate[1] and len(generate[0].split()) == 10


def test_own_text_goes_the_same_road(tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 20)
    directory = str(tmp_path / "model")
    options = [*SMALL, "--boundary", "stream", "--tokenizer", "whitespace"]
    assert main(["train", "--train", str(text), "--output", directory, *options]) == 0
    assert main(["evaluate", directory, "--text", str(text), "--json"]) == 0
    out = capsys.readouterr().out
    assert "best epoch 1" in out
    assert json.loads(out.splitlines()[-1])["tokens"] == 240
    assert main(["score", directory, str(text)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 40


def test_version_and_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert __version__ in capsys.readouterr().out
    for arguments in (["--help"], ["train", "--help"], ["generate", "--help"]):
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
    assert "--temperature" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("train --output {tmp}/m --order 1", "`order` must be 2 or more"),
        ("train --output {tmp}/m --train {tmp}/none.txt", "No such text file"),
        ("train --output {tmp}/m --train {tmp}/empty.txt", "empty.txt is empty"),
        ("train --output {tmp}/m --train {tmp}/latin1.txt", "latin1.txt is not UTF-8"),
        ("train --output {tmp}/m --corpus penn", "`corpus` must be python_reference, brown"),
        ("train --output {tmp}", "is no model directory"),
        ("evaluate {tmp}/none", "There is no model directory"),
        ("evaluate {model} --text {tmp}/empty.txt", "empty.txt is empty"),
        ("score {model} {tmp}/latin1.txt", "latin1.txt is not UTF-8"),
        ("complete {model} word --top-k 0", "`top_k` must be 1 or more"),
        ("generate {model} --num-words 0", "`num_words` must be 1 or more"),
        ("generate {model} --temperature -1", "`temperature` must be 0 or more"),
        ("generate {model} --seed -1", "`seed` must be 0 or more"),
        ("train --output {tmp}/m --output-layer adaptive --held-out-mass 0.1", "`held_out_mass` must be 0 with"),
        ("train --output {tmp}/m --output-layer adaptive --cutoffs 7;9", "`cutoffs` must be numbers with commas"),
        ("train --output {tmp}/m --seed 5000000000", "`seed` must be 0 or more, below 2147483648"),
        ("complete {model} \udcff", "half a surrogate pair"),
    ],
)
def test_misuse_is_one_sentence_and_exit_status_2(tmp_path, model_directory, capsys, arguments, message):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin1.txt").write_bytes("un été\n".encode("latin1"))
    assert main(arguments.format(tmp=tmp_path, model=model_directory).split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err and not captured.out
    assert captured.err.splitlines()[-1].startswith(f"keras-nplm {arguments.split()[0]}: ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["train"], ["train", "--output", "m", "--order", "five"]])
def test_a_command_line_that_does_not_parse_is_exit_status_2(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: keras-nplm" in capsys.readouterr().err


def test_work_that_fails_is_exit_status_1(tmp_path, capsys):
    assert main(["train", "--output", str(tmp_path / "m"), *SMALL, "--learning-rate", "1e30"]) == 1
    assert "The loss became" in capsys.readouterr().err.splitlines()[-1]


def test_an_interrupted_run_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("keras_nplm.training.train.fit_network", interrupted)
    assert main(["train", "--output", str(tmp_path / "m"), *SMALL]) == 130
    assert "give the same command to go on" in capsys.readouterr().err.splitlines()[-1]


def test_text_on_standard_input_that_is_not_utf8_is_refused(model_directory):
    score = subprocess.run(
        [sys.executable, "-m", "keras_nplm", "score", str(model_directory)], input=b"ok\n\xff\n", capture_output=True
    )
    assert score.returncode == 2
    assert b"standard input is not UTF-8 text (byte 3)" in score.stderr and b"Traceback" not in score.stderr


NAMES = "emma olivia ava isabella sophia charlotte mia amelia harper evelyn abigail emily ella elizabeth luna".split()


def test_characters_of_names(tmp_path, capsys):
    """One name a line: from `<s>` to `</s>`, letter by letter, and what is drawn is written together."""
    (tmp_path / "names.txt").write_text("".join(f"{name}\n" for name in NAMES * 20), encoding="utf-8")
    model = tmp_path / "model"
    options = ["--token", "character", "--min-count", "1", "--order", "4", "--embedding-dim", "10", "--dropout", "0"]
    assert main(["train", "--train", str(tmp_path / "names.txt"), *options, "--output", str(model)]) == 0
    assert read_json(model / "config.json")["tokenizer"] == "characters"
    words = (model / "vocabulary.txt").read_text(encoding="utf-8").split()
    assert set(words[4:]) == set("".join(NAMES))
    capsys.readouterr()
    assert main(["generate", str(model), "--num-words", "60", "--temperature", "0.5"]) == 0
    drawn = capsys.readouterr().out.splitlines()
    assert len(set(drawn) & set(NAMES)) >= 3 and not [line for line in drawn if " " in line]
    assert main(["complete", str(model), "charlott", "--top-k", "1", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["charlott"]) == ["e"]
    assert main(["generate", str(model), "--prompt", "charlott", "--num-words", "1", "--temperature", "0"]) == 0
    assert capsys.readouterr().out == "charlotte\n"


def test_size_counts_what_training_makes(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("the cat sees the dog\nthe dog sees the cat\n" * 50, encoding="utf-8")
    options = ["--order", "7", "--averages-after", "2,4", "--residual-blocks", "1", "--min-count", "1", "--epochs", "1"]
    train = ["train", "--train", str(tmp_path / "text.txt"), *options, "--output", str(tmp_path / "model"), "--json"]
    assert main(train) == 0
    parameters = json.loads(capsys.readouterr().out)["parameters"]
    assert main(["size", *options, "--vocabulary-size", "8", "--tokens", "100", "--json"]) == 0
    size = json.loads(capsys.readouterr().out)
    assert size["parameters"] == parameters
    assert size["flops_of_all_epochs"] == 100 * size["flops_training"]
    assert main(["size", *options, "--vocabulary-size", "4"]) == 2
