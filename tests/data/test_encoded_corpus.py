"""Encoded corpora and their shards: read in parts."""

from pathlib import Path

import numpy as np
import pytest

import keras_nplm.data.encoded_corpus as encoded_corpus
from keras_nplm import EncodedCorpus, Vocabulary, encode_corpus, open_corpus


@pytest.fixture
def encoded(tmp_path) -> EncodedCorpus:
    """An encoded text with a resampled one: 16 and 8 ids in training."""
    text = str(tmp_path / "text.txt")
    web = str(tmp_path / "web.txt")
    Path(text).write_text("the cat sat\n" * 4)
    Path(web).write_text("the cat barked\n" * 2)
    corpus = open_corpus(train=[text], validation=[text], test=[text], resample=[(0.5, [web])])
    return encode_corpus(corpus, Vocabulary(["the", "cat"]), tmp_path / "ids")


@pytest.mark.parametrize("limit", [1 << 27, 0])
def test_training_text_is_in_memory_or_in_shards(encoded, monkeypatch, limit):
    monkeypatch.setattr(encoded_corpus, "IN_MEMORY", limit)
    resampled = encoded.for_training()
    assert isinstance(resampled.texts[0], np.ndarray) == (limit > 0)
    assert resampled.shares == [1, 0.5]
    assert [len(text) for text in resampled.texts] == [16, 8]
    encoded.splits["train"] |= {"shards": ["train.00000.ids"], "tokens": 12, "sentences": 4}
    del encoded.splits["train"]["shares"]
    assert isinstance(encoded.for_training(), np.ndarray) == (limit > 0)


def test_a_corpus_that_is_not_there_is_refused(encoded, messages):
    messages.refuse(lambda: encoded.ids("dev"))
    messages.refuse(lambda: EncodedCorpus.load(encoded.directory.parent))


def test_ids_are_counted_by_text(encoded):
    counts, shares = encoded.frequencies_by_share()
    assert shares.tolist() == [1, 0.5]
    assert counts.tolist() == [[0, 4, 0, 4, 4, 4], [0, 2, 0, 2, 2, 2]]
    assert encoded.frequencies().tolist() == [0, 6, 0, 6, 6, 6]
