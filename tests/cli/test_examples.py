"""The example at the end of each command's help runs, after those before it."""

import shlex
from pathlib import Path

import pytest

from keras_nplm.cli.app import COMMANDS
from keras_nplm.data.corpora.opening import open_corpus

NEEDS_BROWN = "paper"  # its data set is downloaded: see experiments/test_paper.py
DIRECTORIES = ("mine", "text", "ngrams", "mixed", "adapted", "more")
WRITTEN = {
    *(f"runs/{name}/manifest.json" for name in DIRECTORIES),
    *("best.txt", "words.svg", "served/mine/1/saved_model.pb"),
}
NBEST = """\
0 ||| the value of the object ||| am=-2.5 ||| -2.5
0 ||| the valley of the object ||| am=-2.0 ||| -2.0
"""


@pytest.mark.long
def test_the_example_of_each_command_runs(run, here):
    lines = [*open_corpus().splits["train"].lines()]
    Path("my.txt").write_text("\n".join(lines[:600]))
    Path("letters.txt").write_text("\n".join(lines[600:640]))
    Path("nbest.txt").write_text(NBEST)
    run("train --train my.txt --output runs/network --epochs 1 --no-interpolated")
    printed = {}
    for name, command in COMMANDS.items():
        if name != NEEDS_BROWN:
            printed[name] = run(name, *shlex.split(command.example)).out
    assert {path for path in WRITTEN if not Path(path).exists()} == set()
    assert all(printed.values())
