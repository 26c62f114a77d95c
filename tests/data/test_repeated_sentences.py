"""The share of held-out sentences that a training text repeats."""

import pytest

import keras_nplm.data.encoded_corpus as encoded_corpus
from keras_nplm import Corpus, EncodedCorpus, Vocabulary, encode_corpus
from keras_nplm.data.repeated_sentences import measure_repeated

VOCABULARY = Vocabulary(["the", "cat", "sat", "on", "a", "mat"])
VALIDATION = ["the cat sat", "a cat sat", "the mat sat on the cat", "sat the cat"]
TEST = ["a mat sat", "the cat"]


@pytest.fixture
def encode(tmp_path):
    """Function that encodes the lines of splits."""

    def encode(name: str, **splits: list[str]) -> EncodedCorpus:
        read = {split: [*map(str.split, lines)].__iter__ for split, lines in splits.items()}
        return encode_corpus(Corpus(name, "whitespace", read), VOCABULARY, tmp_path / name)

    return encode


@pytest.mark.parametrize("part", [3, 1 << 20])
def test_whole_sentences_are_found_wherever_the_text_is_cut(encode, monkeypatch, part):
    monkeypatch.setattr(encoded_corpus, "PART", part)
    one = encode("one", train=["a cat"], validation=VALIDATION, test=TEST)
    assert measure_repeated(one, one) == {"validation": 0, "test": 0}
    train = ["the cat sat on", "the mat sat on the cat", "a cat sat", "the cat"]
    assert measure_repeated(one, encode("two", train=train)) == {"validation": 0.5, "test": 0.5}
