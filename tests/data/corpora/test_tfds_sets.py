import itertools
import sys
import urllib.error
import urllib.request
from unittest.mock import Mock

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import InputError, Vocabulary, encode_corpus, encode_sentences, open_corpus
from keras_nplm.data.corpora import SPLITS

TEXT = "\ufeffone\r\ntwo\rthree\x0bfour\x0cfive\x1csix\x85seven\u2028eight\n\n\r\nlast\r"


def _store(directory, name, version, splits, config=None, shards=None) -> None:
    """Prepare a set, which no code describes, of texts in files."""
    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version=version,
        config=config,
        data_dir=str(directory),
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        split_datasets={split: tf.data.Dataset.from_tensor_slices({"text": splits[split]}) for split in splits},
        disable_shuffling=True,
        download_config=tfds.download.DownloadConfig(num_shards=shards) if shards else None,
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> str:
    """A directory with two versions of a set and a set with a configuration."""
    directory = tmp_path_factory.mktemp("sets")
    for name, version, config in (("my_set", "1.0.0", None), ("my_set", "1.2.0", None), ("other", "2.0.0", "plain")):
        _store(directory, name, version, {split: [f"{TEXT}\n{split} {version}"] for split in SPLITS}, config)
    return str(directory)


def test_a_tfds_set_gives_the_sentences_of_its_builder():
    corpus = open_corpus("tfds:python_reference", tokenizer="whitespace")
    for split in SPLITS:
        assert list(corpus.sentences(split)) == list(open_corpus().sentences(split))


@pytest.mark.parametrize(
    "name, version",
    [("my_set", "1.2.0"), ("my_set:1.0.0", "1.0.0"), ("my_set:1.*.*", "1.2.0"), ("other/plain", "2.0.0")],
)
def test_a_prepared_set_is_found_as_tfds_finds_it(prepared, name, version):
    corpus = open_corpus(f"tfds:{name}", tokenizer="sentencepiece", data_dir=prepared)
    lines = ["one", "two\rthree\x0bfour\x0cfive\x1csix\x85seven\u2028eight", "last", f"test {version}"]
    assert list(corpus.sentences("test")) == lines  # as of files


def test_a_tfds_set_does_not_depend_on_where_it_is_cut(tmp_path, monkeypatch):
    """Chunks of a set of several files become shards; the ids are those of the sentences, file by file."""
    _store(tmp_path, "texts", "1.0.0", {"train": [f"line {i}\nthe end of {i}" for i in range(40)]}, shards=3)
    whole = open_corpus("tfds:texts", data_dir=str(tmp_path))
    assert len(list(tmp_path.rglob("*.tfrecord*"))) == 3
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 350)
    cut = open_corpus("tfds:texts", data_dir=str(tmp_path))
    numbers = [len(split.chunks) for split in cut.splits.values()]
    assert numbers[0] > 3
    sentences = {split: list(whole.sentences(split)) for split in SPLITS}
    numbered = [int(sentence[-1]) for sentence in itertools.chain(*sentences.values())]
    assert sorted(numbered) == [i // 2 for i in range(80)]
    vocabulary = Vocabulary.build(sentences["train"])
    encoded = encode_corpus(cut, vocabulary, tmp_path / "encoded")
    assert len(encoded.splits["train"]["shards"]) == numbers[0]
    for split, lines in sentences.items():
        assert (encode_sentences(lines, vocabulary) == encoded.ids(split)).all()


@pytest.mark.parametrize(
    "name, message",
    [
        ("lm1b/no_such_config", "TFDS cannot open 'lm1b/no_such_config' .* Fix: choose a text set of https://"),
        ("mnist", "'mnist' must have a text feature. Received: image, label."),
        ("wiki40b/en", "Fix: `pip install apache_beam`."),
        ("python_reference", r"TFDS cannot prepare 'python_reference' \(cannot connect\)."),
    ],
)
def test_a_set_that_cannot_be_used_is_refused_in_one_line(tmp_path, monkeypatch, name, message):
    fail = Mock(side_effect=Exception("cannot connect\nmore lines"))  # libraries have kinds of their own
    monkeypatch.setattr(urllib.request, "urlopen", Mock(side_effect=urllib.error.URLError("no network")))
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    monkeypatch.setattr("keras_nplm.data.corpora.tfds_builders.PythonReference._split_generators", fail)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=message) as caught:
        open_corpus(f"tfds:{name}")
    assert "\n" not in str(caught.value)
