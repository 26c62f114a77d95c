import numpy as np
import pytest

import keras_nplm.data.encoding as encoding
from keras_nplm import (
    Corpus,
    EncodedCorpus,
    InputError,
    RunError,
    Vocabulary,
    encode_corpus,
)

SENTENCES = {"train": [["the", "cat"], ["a"], ["the", "dog", "the"]], "validation": [["cat"]], "test": [["dog", "a"]]}


@pytest.fixture
def corpus() -> Corpus:
    return Corpus("small", "whitespace", {split: lambda lines=lines: iter(lines) for split, lines in SENTENCES.items()})


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(["the", "cat", "dog"])


@pytest.mark.parametrize("shard_tokens, shards", [(1 << 24, 1), (3, 2), (1, 3)])
def test_shards_hold_the_ids_of_all_sentences(tmp_path, monkeypatch, corpus, vocabulary, shard_tokens, shards):
    monkeypatch.setattr(encoding, "SHARD_TOKENS", shard_tokens)
    monkeypatch.setattr("keras_nplm.data.shards.CHUNK_SENTENCES", 1)
    encode_corpus(corpus, vocabulary, tmp_path)
    encoded = EncodedCorpus.load(tmp_path)
    assert encoded.ids("train").tolist() == [4, 5, 3, 1, 3, 4, 6, 4, 3]
    described = encoded.splits["train"]
    assert (described["sentences"], described["tokens"], described["unk_tokens"]) == (3, 6, 1)
    assert len(described["shards"]) == shards
    first = np.fromfile(tmp_path / "train.00000.ids", "<i4")
    assert first.tolist() == [4, 5, 3, 1, 3, 4, 6, 4, 3][: len(first)]
    assert (encoded.name, encoded.tokenizer, encoded.vocabulary_size) == ("small", "whitespace", 7)


def test_a_reserved_token_in_the_text_is_refused(tmp_path, corpus, vocabulary):
    corpus.splits["test"] = lambda: iter([["the", "</s>"]])
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, vocabulary, tmp_path)
    with pytest.raises(InputError, match=r"corpus.json"):
        EncodedCorpus.load(tmp_path)  # what is half done does not pass for whole


def test_an_empty_split_is_refused(tmp_path, corpus, vocabulary):
    corpus.splits["validation"] = lambda: iter([])
    with pytest.raises(InputError, match="The validation split of small must have a sentence"):
        encode_corpus(corpus, vocabulary, tmp_path)


def test_damaged_shards_are_refused(tmp_path, corpus, vocabulary):
    encoded = encode_corpus(corpus, vocabulary, tmp_path)
    shard = tmp_path / "train.00000.ids"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-4])
    with pytest.raises(InputError, match=r"hold 8 ids where corpus.json says 9"):
        encoded.ids("train")
    shard.write_bytes(np.array([99] * 9, "<i4").tobytes())
    with pytest.raises(InputError, match="Ids must be 0 to 6. Received: 99"):
        encoded.ids("train")
    shard.unlink()
    with pytest.raises(InputError, match=r"Cannot read .*train.00000.ids"):
        encoded.ids("train")
    with pytest.raises(InputError, match="`split` must be one of train, validation, test"):
        encoded.ids("dev")


def test_a_corpus_json_of_something_else_is_refused(tmp_path):
    (tmp_path / "corpus.json").write_text("{}")
    with pytest.raises(InputError, match="does not describe an encoded corpus"):
        EncodedCorpus.load(tmp_path)
    (tmp_path / "corpus.json").write_text("[")
    with pytest.raises(InputError, match="not valid JSON"):
        EncodedCorpus.load(tmp_path)


def test_a_failed_write_leaves_what_stood_there(tmp_path, monkeypatch, corpus, vocabulary):
    encode_corpus(corpus, vocabulary, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(RunError, match=r"Cannot write .*train.00000.ids: No space left on device"):
        encode_corpus(corpus, vocabulary, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
