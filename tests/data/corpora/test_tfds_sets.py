import sys
import urllib.error
import urllib.request

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

from keras_nplm import open_corpus
from keras_nplm.cli.main import main
from keras_nplm.data.corpora import SPLITS


def test_a_tfds_set_gives_the_sentences_of_its_builder():
    corpus = open_corpus("tfds:python_reference", tokenizer="whitespace")
    for split in SPLITS:
        assert list(corpus.sentences(split)) == list(open_corpus().sentences(split))


TEXT = "\ufeffone\r\ntwo\rthree\x0bfour\x0cfive\x1csix\x85seven\u2028eight\n\n\r\nlast\r"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> str:
    """A directory with two versions of a set and a set with a configuration, which no code describes."""
    directory = str(tmp_path_factory.mktemp("sets"))
    for name, version, config in (("my_set", "1.0.0", None), ("my_set", "1.2.0", None), ("other", "2.0.0", "plain")):
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version=version,
            config=config,
            data_dir=directory,
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            split_datasets={
                split: tf.data.Dataset.from_tensors({"text": f"{TEXT}\n{split} {version}"}) for split in SPLITS
            },
            disable_shuffling=True,
        )
    return directory


@pytest.mark.parametrize(
    "name, version",
    [
        ("my_set", "1.2.0"),
        ("my_set:1.0.0", "1.0.0"),
        ("my_set:1.*.*", "1.2.0"),
        ("other", "2.0.0"),
        ("other/plain:2.0.0", "2.0.0"),
    ],
)
def test_a_prepared_set_is_found_as_tfds_finds_it(prepared, name, version):
    corpus = open_corpus(f"tfds:{name}", tokenizer="whitespace", data_dir=prepared)
    for split in SPLITS:
        assert list(corpus.sentences(split))[-1] == [split, version]


def test_the_set_of_a_namespace_is_found_beside_a_data_directory(prepared, tmp_path):
    from tensorflow_datasets.core.community import config, register_path, registry

    mine = config.NamespaceConfig(paths=[epath.Path(prepared)])
    register = register_path.DataDirRegister(namespaces={"mine": mine})
    registry.community_register().add_namespace("mine", mine, [register])
    corpus = open_corpus("tfds:mine:my_set", tokenizer="whitespace", data_dir=str(tmp_path))
    assert list(corpus.sentences("test"))[-1] == ["test", "1.2.0"]


def test_examples_have_the_lines_of_files(prepared, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(f"{TEXT}\ntest 1.2.0", encoding="utf-8", newline="")
    named = {split: [str(path)] for split in SPLITS}
    expected = list(open_corpus(**named, tokenizer="sentencepiece").sentences("test"))
    corpus = open_corpus("tfds:my_set", tokenizer="sentencepiece", data_dir=prepared)
    assert list(corpus.sentences("test")) == expected
    assert expected == ["one", "two\rthree\x0bfour\x0cfive\x1csix\x85seven\u2028eight", "last", "test 1.2.0"]


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
