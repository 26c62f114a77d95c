"""Model directories: `config.json`, the vocabulary, and the figures in `metrics.json`."""

from pathlib import Path

from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_json
from keras_nplm.io.remote import display_url
from keras_nplm.io.stages import MODEL, Stages, read_manifest, verify_stages


def is_of_corpus(name: str) -> bool:
    """Return whether a file of a model directory is of the encoded text: few commands read it."""
    return name.startswith("corpus/")


def read_description(directory: Path) -> tuple[dict, Vocabulary]:
    """Read `config.json` and the vocabulary of a model directory, without the model.

    Its files are verified, but for the encoded text.
    """
    shown = display_url(directory)
    fix = "name a directory that `train`, `ngram` or `mix` wrote."
    received = ""
    if directory.is_file():
        received = f"the file {shown}"
        fix += " `keras-nplm ngram --arpa FILE --output DIR` makes one of an ARPA file."
    elif not directory.is_dir():
        received = f"{shown}, which does not exist"
        fix = f"train a model with `keras-nplm train --output {shown}`."
    elif not read_manifest(directory):
        received = f"{shown}, a directory without manifest.json"
    elif not Stages(directory).is_made(MODEL):
        received = f"{shown}, in which no model is finished"
        fix = f"run the command that wrote it again; or {fix}"
    if received:
        raise InputError(f"A model directory is needed. Received: {received}. Fix: {fix}")
    verify_stages(directory, is_wanted=lambda name: not is_of_corpus(name))
    return read_config(directory), Vocabulary.load(directory / "vocabulary.txt")


def read_config(path: Path) -> dict:
    """Read `config.json` of a model directory; {} of an ARPA file."""
    return _read_json(path / "config.json")


def read_metrics(path: Path) -> dict:
    """Read the figures of a model directory; {} if it has none, and of an ARPA file."""
    return _read_json(path / "metrics.json")


def _read_json(path: Path) -> dict:
    return read_json(path) if path.exists() else {}
