"""A small text, an n-gram model of it, and a function that runs commands."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keras_nplm.cli.main import main

TEXT = "the cat sat on the mat\nthe dog sat on the cat\n" * 20


@pytest.fixture(scope="package")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def ngram_directory(tmp_path_factory, text) -> Path:
    directory = tmp_path_factory.mktemp("ngrams") / "model"
    command = f"ngram --train {text} --output {directory} --min-count 1"
    assert main(command.split()) == 0
    return directory


@pytest.fixture
def run(capsys) -> Callable:
    """Run a command, given as one line or as words: what it prints, `out` and `err`."""

    def run(*words: Any, status: int = 0):
        capsys.readouterr()
        line = shlex.split(words[0]) if len(words) == 1 else [*map(str, words)]
        assert main(line) == status
        return capsys.readouterr()

    return run


@pytest.fixture
def ask(run) -> Callable:
    """Run a command with `--json`, and return the object that it prints."""

    def ask(*words: Any) -> dict:
        line = shlex.split(words[0]) if len(words) == 1 else words
        return json.loads(run(*line, "--json").out)

    return ask


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory, in which commands name their files."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def files(here, text, ngram_directory) -> Path:
    """A working directory with `text.txt` and the model `ngrams`."""
    (here / "text.txt").symlink_to(text)
    (here / "ngrams").symlink_to(ngram_directory)
    return here
