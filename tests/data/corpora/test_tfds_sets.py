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
from keras_nplm.data.corpus import SPLITS


def test_a_tfds_set_does_not_depend_on_where_it_is_cut(tmp_path, monkeypatch):
    """Chunks of a set of several files become shards; the ids are those of the sentences, file by
    file.
    """
    texts = [f"\ufeffline {i}\r\nthe\rend\x0bof\x85\u2028{i}\n\n" for i in range(40)]
    tfds.dataset_builders.store_as_tfds_dataset(
        name="texts",
        version="1.0.0",
        config="plain",
        data_dir=str(tmp_path),
        features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices({"text": texts})},
        disable_shuffling=True,
        download_config=tfds.download.DownloadConfig(num_shards=3),
    )
    whole = open_corpus("tfds:texts/plain:1.0.0", data_dir=str(tmp_path), tokenizer="characters")
    assert len(list(tmp_path.rglob("*.tfrecord*"))) == 3
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 350)
    cut = open_corpus("tfds:texts/plain", data_dir=str(tmp_path), tokenizer="characters")
    numbers = [len(split.chunks) for split in cut.splits.values()]
    assert numbers[0] > 3
    sentences = {split: list(whole.sentences(split)) for split in SPLITS}
    lines = map("".join, itertools.chain(*sentences.values()))
    expected = itertools.chain(*([f"line▁{i}", f"the▁end▁of▁{i}"] for i in range(40)))
    assert sorted(lines) == sorted(expected)
    vocabulary = Vocabulary.build(sentences["train"])
    encoded = encode_corpus(cut, vocabulary, tmp_path / "encoded")
    assert len(encoded.splits["train"]["shards"]) == numbers[0]
    for split, lines in sentences.items():
        assert (encode_sentences(lines, vocabulary) == encoded.ids(split)).all()


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "lm1b/no_such_config",
            "TFDS cannot open 'lm1b/no_such_config' .* Fix: choose a text set of https://",
        ),
        ("mnist", "'mnist' must have a text feature. Received: image, label."),
        ("wiki40b/en", "Fix: `pip install apache_beam`."),
    ],
)
def test_a_set_that_cannot_be_used_is_refused_in_one_line(tmp_path, monkeypatch, name, message):
    monkeypatch.setattr(
        urllib.request, "urlopen", Mock(side_effect=urllib.error.URLError("no network"))
    )
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=message) as caught:
        open_corpus(f"tfds:{name}")
    assert "\n" not in str(caught.value)
