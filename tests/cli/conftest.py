"""A small text, and an n-gram model of it."""

from pathlib import Path

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
def files(here, text, ngram_directory) -> Path:
    """A working directory with `text.txt` and the model `ngrams`."""
    (here / "text.txt").symlink_to(text)
    (here / "ngrams").symlink_to(ngram_directory)
    return here
