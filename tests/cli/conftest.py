"""A small text, an n-gram model of it, and a function that runs commands."""

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
