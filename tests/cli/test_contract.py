"""What holds for every command; a new one needs a line in `LINES`."""

import contextlib
import io
import json
import shlex
from pathlib import Path

import pytest

from keras_nplm.cli.app import COMMANDS, build_app, parse
from keras_nplm.cli.main import main
from keras_nplm.cli.printing import print_result
from tests.cli.test_output import DIRECTORIES

NETWORK = "--order 7 --set averages_after=2,4 --embedding-dim 8 --hidden-units 8 --epochs 1"
NETWORK += " --direct-connections"
# of each command a line that succeeds; the models are `ngrams` and `network`
LINES = {
    "train": f"train --train text.txt --output trained {NETWORK} --min-count 1",
    "size": "size --vocabulary-size 99",
    "prepare": "prepare --train text.txt --output prepared",
    "ngram": "ngram --train text.txt --output again",
    "mix": "mix ngrams --uniform --output mixture",
    "adapt": "adapt network --text own.txt --epochs 1 --output adapted",
    "add-words": "add-words network --text own.txt --output enlarged",
    "evaluate": "evaluate ngrams",
    "score": "score ngrams text.txt",
    "complete": "complete network 'the value'",
    "generate": "generate network --num-words 5",
    "rescore": "rescore ngrams nbest --output rescored",
    "nearest": "nearest network the",
    "analogy": "analogy network the a is",
    "map": "map network map.svg --num-words 20",
    "export": "export ngrams model.arpa",
    "paper": "paper --rows",  # takes hours: tests/experiments/test_paper.py has it
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory, text, ngram_directory, model_directory) -> Path:
    """A directory with the files of `LINES`."""
    directory = tmp_path_factory.mktemp("contract")
    (directory / "text.txt").symlink_to(text)
    (directory / "ngrams").symlink_to(ngram_directory)
    (directory / "network").symlink_to(model_directory)
    (directory / "own.txt").write_text("The zebra is the value of a zebra .\n" * 20)
    (directory / "nbest").write_text("0 ||| the cat ||| lm= -3 ||| -3\n")
    return directory


@pytest.fixture(scope="module")
def results(directory) -> dict[str, dict]:
    """The object that each line prints with `--json`."""
    results = {}
    with contextlib.chdir(directory):
        for name in [name for name in LINES if name != "paper"]:
            with contextlib.redirect_stdout(io.StringIO()) as output:
                assert main([*shlex.split(LINES[name]), "--json"]) == 0
            results[name] = json.loads(output.getvalue())  # standard output has nothing else
    return results


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "paper"])
def test_a_command_returns_one_object_which_is_printed_for_people(name, results, capsys):
    function, _ = parse(shlex.split(LINES[name]))
    print_result(function, results[name])
    printed = capsys.readouterr()
    assert printed.out and not printed.err
    assert all(character.isprintable() or character in "\n\t" for character in printed.out)


def test_evaluate_repeats_the_figures_of_a_training_run(directory, results, ask, monkeypatch):
    monkeypatch.chdir(directory)
    result = results["train"]
    assert result["validation"]["perplexity"] < 9
    repeated = ask("evaluate trained --split validation")
    assert repeated.pop("text") == "validation split"
    assert repeated == result["validation"]
    assert ask("evaluate trained --text text.txt")["tokens"] == 280
    counts = ask(f"size {NETWORK} --vocabulary-size 10 --tokens 100")
    assert counts["parameters"] == result["parameters"]
    assert counts["flops_of_all_epochs"] == 100 * counts["flops_training"]


def test_every_command_has_a_line_and_its_output_is_tested():
    assert {*LINES} == {*COMMANDS}
    app = build_app()
    writing = {
        name
        for name in COMMANDS
        for argument in app[name].assemble_argument_collection()
        if argument.name == "--output" and argument.required
    }
    assert writing <= {line.split()[0] for line in DIRECTORIES}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "size"])
def test_input_that_is_absent_is_one_line_and_status_2(name, here, run):
    (line,) = run(LINES[name], status=2).err.splitlines()
    assert " Fix: " in line
