"""The tokenizer in the graph returns the tokens that Python's tokenizer returns."""

import functools
import sys

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary
from keras_nplm.data.tokenizers import TOKENIZERS
from keras_nplm.serving.text import TextGraph

WORDS = ["the", "cat", "sat", "on", "mat"]
TEXTS = st.text() | st.text("aé_-'’ \t\x1c\x85\u2028\ufeff\0²<>")
EXAMPLES = ["The cat's mother-in-law sat.\tOn 3.5² mats…", "", " \x1c\u2028 ", "a_b-’c ﬁ Ω\u0301", "<s> <unk>\0\ufeff"]


@functools.cache
def _build_split(tokenizer_name: str):
    text = TextGraph(Vocabulary(WORDS), tokenizer_name, "sentence")
    return tf.function(text.split, [tf.TensorSpec([None], tf.string)])


def _split(tokenizer_name: str, text: bytes) -> list[str]:
    return [token.decode() for token in _build_split(tokenizer_name)(tf.constant([text]))[0].numpy()]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", EXAMPLES)
def test_text_is_split_as_in_python(name, text):
    assert _split(name, text.encode()) == TOKENIZERS[name](text)


@pytest.mark.long
@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_any_text_is_split_as_in_python(name, text):
    assert _split(name, text.encode()) == TOKENIZERS[name](text)


@pytest.mark.long
@pytest.mark.parametrize("name", TOKENIZERS)
def test_every_character_is_split_as_in_python(name):
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    text = "".join(f"{character}a{character}'b " for character in characters)  # 7 million characters
    assert _split(name, text.encode()) == TOKENIZERS[name](text)


@given(text=st.binary() | st.text().map(lambda text: text.encode("utf-16")))
@settings(max_examples=30, deadline=None)
def test_invalid_utf8_becomes_the_replacement_character(text):
    assert _split("words", text) == TOKENIZERS["words"](text.decode("utf-8", "replace"))


def test_reserved_tokens_are_out_of_vocabulary():
    text = TextGraph(Vocabulary(WORDS), "whitespace", "stream")
    assert text.ids(tf.constant(["<s> the </s> <pad> <unk>"])).to_list() == [[1, 4, 1, 1, 1]]


@pytest.mark.parametrize("boundary, expected", [("sentence", [2, 4, 5]), ("stream", [0, 4, 5])])
def test_short_contexts_are_padded_by_boundary(boundary, expected):
    text = TextGraph(Vocabulary(WORDS), "whitespace", boundary)
    assert text.contexts(tf.constant(["the cat"]), order=4).numpy().tolist() == [expected]
