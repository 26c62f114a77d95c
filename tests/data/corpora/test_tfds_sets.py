import sys
import urllib.error
import urllib.request

import pytest
import tensorflow_datasets as tfds

from keras_nplm import open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.corpora import SPLITS


def test_a_tfds_set_gives_the_sentences_of_its_builder():
    corpus = open_corpus("tfds:python_reference", tokenizer="whitespace")
    for split in SPLITS:
        assert list(corpus.sentences(split)) == list(open_corpus().sentences(split))


def _refuse(name, capsys, arguments=()) -> str:
    """Run a command on a TFDS set that cannot be used, and return its one line."""
    assert main(["ngram", "--corpus", f"tfds:{name}", "--output", "unused", *arguments]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    return [line for line in captured.err.splitlines() if line.startswith("keras-nplm ngram: ")].pop()


@pytest.mark.parametrize("name", ["no_such_set", "lm1b/no_such_config", "lm1b:9.9.9", "../x", ""])
def test_an_unknown_tfds_set_is_refused(name, capsys):
    line = _refuse(name, capsys)
    assert f"TFDS cannot open {name!r} (" in line and "Fix: choose a text set of https://" in line


def test_a_set_without_text_is_refused(capsys):
    assert "'mnist' must have a text feature. Received: image, label." in _refuse("mnist", capsys)


def test_a_set_of_hugging_face_needs_its_host(monkeypatch, capsys):
    def no_network(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    line = _refuse("huggingface:wikitext", capsys)
    assert "(<urlopen error no network>). Fix: save the text to files and name them with --train." in line


def test_any_error_of_a_set_is_one_line(tmp_path, monkeypatch, capsys):
    class HostError(Exception):
        """An error that is no subclass of those which Python has for files and connections."""

    def fail(*args, **kwargs):
        raise HostError("cannot connect\nmore lines")

    monkeypatch.setattr(tfds, "builder", fail)
    assert _refuse("a_set", capsys).endswith(
        "'a_set' (cannot connect). Fix: choose a text set of https://www.tensorflow.org/datasets/catalog."
    )
    monkeypatch.undo()
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    monkeypatch.setattr("keras_nplm.data.corpora.tfds_builders.PythonReference._split_generators", fail)
    assert _refuse("python_reference", capsys).endswith("TFDS cannot prepare 'python_reference' (cannot connect).")


def test_a_missing_library_of_a_set_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    assert _refuse("wiki40b/en", capsys).endswith("Fix: `pip install apache_beam`.")


def test_where_a_set_is_prepared_is_announced(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    for prepared in (False, True):
        open_corpus("tfds:python_reference")
        captured = capsys.readouterr()
        assert (f"Preparing the TFDS set python_reference in {tmp_path}" in captured.err) != prepared
        assert "ownload" not in captured.out + captured.err
