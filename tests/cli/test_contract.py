"""What holds for every command; a new one needs a line in `LINES`."""

import contextlib
import io
import itertools
import json
import shlex

import pytest

from keras_nplm.cli.app import COMMANDS, build_app
from keras_nplm.cli.main import main
from tests.cli.test_output import DIRECTORIES

SMALL = "--embedding-dim 4 --hidden-units 4 --epochs 1 --no-interpolated"
# of each command a line that succeeds; the models are `ngrams` and `network`
LINES = {
    "train": f"train --train text.txt --output trained {SMALL}",
    "size": "size --vocabulary-size 99",
    "prepare": "prepare --train text.txt --output prepared",
    "ngram": "ngram --train text.txt --output again",
    "mix": "mix ngrams --uniform --output mixture",
    "adapt": "adapt network --text own.txt --output adapted",
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
def results(tmp_path_factory, text, ngram_directory, model_directory) -> dict[tuple, tuple]:
    """Exit status, output and messages of each line, with and without `--json`."""
    directory = tmp_path_factory.mktemp("contract")
    (directory / "text.txt").symlink_to(text)
    (directory / "ngrams").symlink_to(ngram_directory)
    (directory / "network").symlink_to(model_directory)
    (directory / "own.txt").write_text("The zebra is the value of a zebra .\n" * 20)
    (directory / "nbest").write_text("0 ||| the cat ||| lm= -3 ||| -3\n")
    results = {}
    with contextlib.chdir(directory):
        for name, is_json in itertools.product(LINES.keys() - {"paper"}, (True, False)):
            out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
            line = LINES[name]
            if is_json and not COMMANDS[name].has_checkpoint:  # or else it reads a finished run
                line = line.replace("--output ", "--output json-")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main(shlex.split(line) + ["--json"] * is_json)
            texts = []
            for file in (out, err):
                file.flush()
                texts.append(file.buffer.getvalue().decode())
            results[name, is_json] = status, *texts
    return results


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "paper"])
def test_a_command_prints_one_object_or_lines_for_people(name, results):
    status, out, err = results[name, True]
    assert status == 0 and isinstance(json.loads(out), dict) and out.count("\n") == 1, err
    status, out, err = results[name, False]
    assert status == 0 and out, err
    assert all(character.isprintable() or character in "\n\t\r" for character in out + err)


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


@pytest.mark.parametrize("name", COMMANDS.keys() - {"size"})
def test_input_that_is_absent_is_one_line_and_status_2(name, here, run):
    (line,) = run(LINES[name], status=2).err.splitlines()
    assert " Fix: " in line
