"""Prefix completion in the graph returns what Python returns."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_nplm.data.prefixes import PrefixIndex, split_unfinished_word
from keras_nplm.language_model.completion import LONGEST_PREFIX, split_unfinished
from keras_nplm.serving.prefixes import PrefixTable, UnfinishedWords
from keras_nplm.serving.signatures import ServingModule

WORDS = ["the", "cat", "cat's", "a-b", "ca", "éa字", "C", "."]
TEXTS = st.text("acC tÉé字-'’.\x1c\u2028\ufffd😀", max_size=40) | st.text(max_size=10)


@functools.cache
def _build_functions(tokenizer_name: str):
    prefixes = PrefixTable(PrefixIndex(WORDS, first=0))
    unfinished = UnfinishedWords(tokenizer_name, prefixes.longest)
    texts = tf.TensorSpec([None], tf.string)
    return tf.function(unfinished.split, [texts]), tf.function(prefixes.match, [texts])


@pytest.mark.parametrize("name", ["words", "whitespace", "words+lower"])
@given(text=TEXTS)
@example(text="The cat's mother-in-law sat on the C")
@example(text="x-yyyy" * 9)
@settings(max_examples=60, deadline=None)
def test_texts_and_prefixes_are_split_as_in_python(name, text):
    split, match = _build_functions(name)
    context, word = (part[0].numpy() for part in split(tf.constant([text.encode()])))
    expected = split_unfinished_word(text, name, longest=max(map(len, WORDS)))
    fits = match(tf.constant([word]))[0].numpy().tolist()
    assert fits == [each.startswith(expected[1]) for each in WORDS]
    if any(fits):
        assert (context.decode(), word.decode()) == expected


@given(text=TEXTS)
@example(text="The cat's mother-in-law sat on the C")
@example(text="我们可以 ไทย a\u0301é")
@settings(max_examples=60, deadline=None)
def test_unfinished_words_of_pieces_are_those_of_python(text):
    context, word = (part[0].numpy().decode() for part in _build_split_of_pieces()(tf.constant([text.encode()])))
    expected = split_unfinished(text)
    assert (context, word) == expected if len(expected[1]) <= LONGEST_PREFIX else len(word) > LONGEST_PREFIX


@functools.cache
def _build_split_of_pieces():
    return tf.function(UnfinishedWords("characters", LONGEST_PREFIX).split, [tf.TensorSpec([None], tf.string)])


def test_invalid_bytes_are_in_no_word():
    split, _ = _build_functions("whitespace")
    context, word = (part[0].numpy() for part in split(tf.constant([b"a \xff\xc3ca"])))
    assert (context, word) == (b"a \xff\xc3", b"ca")


TYPED = ["The value of the na", "The ", "", "the zyzzyva", "If the object i", "a ("]


def test_the_served_completions_are_those_of_python(loaded, language_model):
    served = loaded.signatures["complete_prefix"](texts=tf.constant(TYPED))
    for i, text in enumerate(TYPED):
        expected = language_model.complete_prefix(text, 5)
        words, probabilities = (served[name][i].numpy() for name in ("words", "probabilities"))
        assert [word.decode() for word in words if word] == [word for word, _ in expected]
        np.testing.assert_allclose(probabilities, [p for _, p in expected] + [0] * (5 - len(expected)), rtol=1e-5)


def test_completions_of_an_unreadable_context_are_nan(language_model):
    complete = ServingModule(language_model, top_k=2, max_text_length=20).signatures()["complete_prefix"]
    served = complete(texts=tf.constant(["é" * 20 + " na", "The value of na"]))
    assert np.isnan(served["probabilities"][0]).all() and served["words"][0].numpy().tolist() == [b"", b""]
    assert served["words"][1].numpy()[0] == b"name"
