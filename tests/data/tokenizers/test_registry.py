"""Tokenizers of one's own: what they must define, how a name finds them, what is refused."""

import pickle

import pytest

from keras_nplm import (
    InputError,
    LanguageModel,
    Vocabulary,
    register_tokenizer,
)
from keras_nplm.data.prefixes import split_unfinished_word
from keras_nplm.data.shards import encode_lines
from tests.tokenizers import CommaTokenizer, build_model

pytestmark = pytest.mark.usefixtures("forget_tokenizers")


def test_an_own_tokenizer_is_used_by_its_class_and_found_by_its_name(tmp_path):
    lines = ["red cat,dog", "dog,red cat,dog"] * 5
    model = build_model(CommaTokenizer(), lines)
    assert model.next_words("dog,", 1)[0][0] == "redcat"
    assert model.vocabulary == Vocabulary.build(lines, tokenizer=CommaTokenizer())
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match=r"Received: 'commas'.*Fix: register a class of your own"):
        LanguageModel.load(tmp_path / "model")
    assert register_tokenizer(CommaTokenizer) is register_tokenizer(CommaTokenizer)
    loaded = LanguageModel.load(tmp_path / "model")
    assert loaded.tokenize("a, b") == ["a", "b"]
    assert pickle.loads(pickle.dumps(loaded)).tokenizer.name == "commas"


def test_own_tokenizers_that_cannot_be_used(messages):
    class OtherWords(CommaTokenizer):
        kind = "words"

    class Unsplit(CommaTokenizer):
        def split(self, line):
            return line

    vocabulary = Vocabulary(["a", "b"])
    messages.refuse(lambda: encode_lines(["a b"], vocabulary, Unsplit(), "sentence"))
    messages.refuse(lambda: register_tokenizer(OtherWords))
    messages.refuse(lambda: CommaTokenizer(["lower"]))
    messages.refuse(lambda: split_unfinished_word("red ca", CommaTokenizer(), 9))
