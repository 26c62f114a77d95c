"""Normalisation in the graph: lower case, numbers and lemmas as in Python."""

import functools
import itertools
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary
from keras_nplm.data.tokenizers import (
    CHARACTERS,
    NUMBER,
    STEPS,
    TOKENIZERS,
    add_steps,
    build_form_table,
    get_tokenizer,
    is_number,
    lower,
)
from keras_nplm.data.vocabulary import EOS_ID, UNK_ID
from keras_nplm.serving.text import TextGraph

NAMES = [
    add_steps(base, steps)
    for base in TOKENIZERS
    for number in range(len(STEPS) + 1)
    for steps in itertools.combinations(STEPS, number)
    if base != CHARACTERS or not {*steps} - {"lower"}
]
DICTIONARY = {"cats": "cat", "sat": "sit", "went": "go", "going": "go", "goings": "going", "a": "b", "été": "être"}
WORDS = ["the", "cat", "Cat", "sit", "go", NUMBER, "être", "b", "İ", "i", "."]
LINES = ["The Cat SAT on 12 mats.", "Goings on Été İ 3rd 1,000 <unk> A", "", "<s> CATS went ½ ΌΣΟΣ"]
TEXT = st.text() | st.text("Ab1 ÉéǅİΣς½Ⅳ٣_-'$.,²²\t\x85\u2028<>")
FORMS = st.lists(st.sampled_from([*DICTIONARY, "Cats", "CATS", "Goings", "12", "3rd", "İ", "."])).map(" ".join)


@functools.cache
def _build(name: str) -> tuple[Vocabulary, tf.types.experimental.PolymorphicFunction, TextGraph]:
    forms = build_form_table(DICTIONARY, get_tokenizer(name.removesuffix("+lemmas"))) if "lemmas" in name else None
    vocabulary = Vocabulary(WORDS) if forms is None else Vocabulary(WORDS).with_forms(forms)
    graph = TextGraph(vocabulary, name, "sentence")
    return vocabulary, tf.function(graph.split, [tf.TensorSpec([None], tf.string)]), graph


def _check_ids(name: str, texts: list[str]) -> None:
    vocabulary, split, graph = _build(name)
    tokenize = get_tokenizer(name, vocabulary.forms)
    tokens = split(tf.constant([text.encode() for text in texts], tf.string))
    ids = tf.ragged.map_flat_values(graph.look_up, tokens).to_list()
    expected = [vocabulary.encode(tokenize(text)) for text in texts]
    assert ids == [np.where(i <= EOS_ID, UNK_ID, i).tolist() for i in expected]  # Python refuses reserved tokens


@pytest.mark.parametrize("name", ["words+lower+numbers+lemmas", "whitespace+lemmas", "characters+lower"])
def test_ids_of_normalised_text_are_those_of_python(name):
    _check_ids(name, LINES)


@pytest.mark.long
@given(texts=st.lists(TEXT | FORMS, max_size=3), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_ids_of_any_normalised_text_are_those_of_python(texts, name):
    _check_ids(name, texts)


@pytest.mark.long
def test_every_character_is_normalised_as_in_python():
    characters = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    changed = [character for character in characters if lower(character) != character or is_number(character)]
    for name, text in {
        "whitespace+lower+numbers": "".join(f"{character}1 " for character in characters),
        "words+lower+numbers": "".join(f"{c}1 A{c}{c}'{c}-{c} {c} -{c} " for c in changed),
    }.items():
        _, split, _ = _build(name)
        assert [token.decode() for token in split(tf.constant([text.encode()]))[0].numpy()] == get_tokenizer(name)(text)
