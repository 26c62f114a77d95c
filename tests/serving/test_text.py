"""The tokenizer in the graph returns the tokens that Python's tokenizer returns."""

import functools
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary
from keras_nplm.data.tokenizers import TOKENIZERS
from keras_nplm.serving.text import TextGraph

ENDS = ["a", "b", ".", "字", "é", "1", "a-b", "▁", "_number_", "aa", "😀"]
CHARACTERS_OF_ENDS = "abéßİ字-'’_.¡\t \u3000\ufeff\ufffd1½\u2028😀\0"
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
    context_ids, found = text.contexts(tf.constant(["the cat"]), order=4, max_length=100)
    assert context_ids.numpy().tolist() == [expected] and found.numpy().all()


@functools.cache
def _build_contexts(tokenizer_name: str):
    """Return two functions from texts to the ids of their last 3 tokens: from their ends, and from the whole texts."""
    text = TextGraph(Vocabulary(ENDS), tokenizer_name, "sentence")
    texts = tf.TensorSpec([None], tf.string)
    read = tf.function(lambda texts: text.contexts(texts, 4, 1 << 20), [texts])
    return read, tf.function(lambda texts: text._take_last(text.ids(texts), 3), [texts])


def _check_ends(name: str, texts: list[bytes]) -> None:
    read, read_whole = _build_contexts(name)
    context_ids, found = read(tf.constant(texts))
    assert found.numpy().all()
    np.testing.assert_array_equal(context_ids, read_whole(tf.constant(texts)))


@pytest.fixture
def short_ends(monkeypatch):
    """Read a few bytes first, so that a short text is cut, too."""
    monkeypatch.setattr("keras_nplm.serving.text._BYTES_PER_TOKEN", 1)
    monkeypatch.setattr("keras_nplm.serving.text._MORE_BYTES", 3)
    _build_contexts.cache_clear()
    yield
    _build_contexts.cache_clear()


def _make_texts(seed: int, number: int) -> list[bytes]:
    """Return texts of letters, joining marks, white space and marks of 1 to 4 bytes, with some invalid bytes."""
    random = np.random.default_rng(seed)
    texts = ["".join(random.choice(list(CHARACTERS_OF_ENDS), random.choice([0, 3, 12, 90]))) for _ in range(number)]
    texts = [bytearray(text.encode()) for text in texts]
    for text in texts[::3]:
        for place in random.integers(0, max(len(text), 1), 4 * bool(text)):
            text[place] = random.choice([0x80, 0xBF, 0xE3, 0xF0, 0x9F, 0x20, 0xFF, 0xC3])
    return list(map(bytes, texts))


@pytest.mark.parametrize("name", ["words", "whitespace", "characters", "words+lower+numbers"])
def test_the_end_of_a_text_has_its_last_tokens(name, short_ends):
    _check_ends(name, _make_texts(0, 300))


@pytest.mark.long
@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_end_of_any_text_has_its_last_tokens(name, short_ends):
    for seed in range(1, 60):
        _check_ends(name, _make_texts(seed, 300))


def test_only_the_end_of_a_long_text_is_read(monkeypatch):
    text, read = TextGraph(Vocabulary(ENDS), "words", "sentence"), []
    tokenize = text._tokenize
    monkeypatch.setattr(text, "_tokenize", lambda texts: read.extend(map(len, texts.numpy())) or tokenize(texts))
    texts = tf.constant(["a b . 字 " * 200_000, "b", "a " + "x" * 5000 + " b a", "b a a." + "x" * 999_999])
    context_ids, found = text.contexts(texts, 4, 10_000)
    assert found.numpy().tolist() == [True, True, True, False]  # the word x…x is longer than 10,000 bytes
    a, b, dot, character = range(4, 8)
    assert context_ids[:3].numpy().tolist() == [[b, dot, character], [2, 2, b], [1, b, a]]
    assert sum(read) < 25_000
