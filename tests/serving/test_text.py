"""The tokenizer in the graph returns the tokens of Python: split, lower case, numbers, lemmas, the
end of a text.
"""

import functools
import itertools
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary
from keras_nplm.data.text_ops import decode_texts
from keras_nplm.data.tokenizers.normalisation import (
    NUMBER,
    STEPS,
    build_form_table,
    is_number,
    lower,
)
from keras_nplm.data.tokenizers.registry import TOKENIZERS, add_steps, get_tokenizer
from keras_nplm.serving.text import TextGraph

_STEPS = [
    steps for number in range(len(STEPS) + 1) for steps in itertools.combinations(STEPS, number)
]
WORD_KINDS = [kind for kind in TOKENIZERS if TOKENIZERS[kind].tokens_are_words]
NAMES = [add_steps(kind, steps).name for kind in WORD_KINDS for steps in _STEPS]
WORDS = ["the", "cat", "Cat", "sit", "go", NUMBER, "être", "b", "İ", "i", "."]
DICTIONARY = {
    "cats": "cat",
    "sat": "sit",
    "went": "go",
    "going": "go",
    "goings": "going",
    "a": "b",
    "été": "être",
}
EXAMPLES = [
    "The cat's mother-in-law sat.\tOn 3.5² mats…",
    "",
    " \x1c\u2028 ",
    "a_b-’c ﬁ Ω\u0301",
    "हिन्दी में a\u0301\u0302b'\u0301c \u0301d ❤\ufe0fe می\u200cخواهم",
    "<s> <unk>\0\ufeff",
]
EXAMPLES += ["The Cat SAT on 12 mats.", "Goings on Été İ 3rd 1,000 <unk> A", "<s> CATS went ½ ΌΣΟΣ"]
INVALID = [np.random.default_rng(seed).bytes(seed) for seed in range(40)] + [
    b"a\xf0\x9f\x98 b\xe2\x82"
]
TEXTS = st.text() | st.text("Ab1 ÉéǅİΣς½Ⅳ٣_-'’$.,²²\u0301\u200dि\t\0\x1c\x85\u2028\ufeff<>")
TEXTS |= st.lists(
    st.sampled_from([*DICTIONARY, "Cats", "CATS", "Goings", "12", "3rd", "İ", "."])
).map(" ".join)


@functools.cache
def _build(name: str):
    """Return the vocabulary, the graph and its function from texts to tokens."""
    vocabulary = Vocabulary(WORDS)
    if "lemmas" in name:
        before = get_tokenizer(name.removesuffix("+lemmas"))
        vocabulary = vocabulary.with_forms(build_form_table(DICTIONARY, before.split))
    graph = TextGraph(vocabulary, name, "sentence")

    def split(texts: tf.Tensor) -> tf.RaggedTensor:
        return graph.tokens.split(decode_texts(texts))

    texts = tf.TensorSpec([None], tf.string)
    return vocabulary, graph, tf.function(split, [texts], autograph=False)


def _check(name: str, texts: list[bytes]) -> None:
    """Compare tokens, or ids where Python's tokens are lemmas, with those of Python."""
    vocabulary, graph, split = _build(name)
    tokenize = vocabulary.tokenizer(name).split
    expected = [tokenize(text.decode("utf-8", "replace")) for text in texts]
    tokens = split(tf.constant(texts, tf.string))
    if "lemmas" not in name:
        assert [[token.decode() for token in row] for row in tokens.to_list()] == expected
    ids = tf.ragged.map_flat_values(graph.look_up, tokens).to_list()
    # Python refuses <s>
    known = [[i if i > 3 else 1 for i in vocabulary.encode(row).tolist()] for row in expected]
    assert ids == known


_EXAMPLE_NAMES = [
    "characters",
    "characters+lower",
    "words+lower+numbers+lemmas",
    "whitespace+lemmas",
]


@pytest.mark.parametrize("name", [*WORD_KINDS, *_EXAMPLE_NAMES])
def test_text_has_the_ids_of_python(name):
    _check(name, [*map(str.encode, EXAMPLES), *INVALID])


@pytest.mark.long
@given(texts=st.lists(TEXTS, max_size=3), name=st.sampled_from(NAMES))
@settings(max_examples=150, deadline=None)
def test_any_text_has_the_ids_of_python(texts, name):
    _check(name, [text.encode() for text in texts])


_ALL = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
_EQUIVALENT = [unicodedata.normalize("NFD", character) for character in _ALL]
_CHANGED = [
    character for character in _ALL if lower(character) != character or is_number(character)
]


@pytest.mark.long
@pytest.mark.parametrize(
    "name, characters, pattern",
    [
        pytest.param("words", _ALL, "{0}a{0}'b ", id="words"),
        pytest.param("characters", _EQUIVALENT, "{0}a", id="decomposed characters"),
        pytest.param("characters+lower", _ALL, "{0}a", id="characters in lower case"),
        pytest.param(
            "words+lower+numbers",
            _CHANGED,
            "{0}1 A{0}{0}'{0}-{0} {0} -{0} ",
            id="words in lower case, with numbers",
        ),
    ],
)
def test_every_character_is_split_as_in_python(name, characters, pattern):
    _check(name, ["".join(map(pattern.format, characters)).encode()])


@pytest.mark.parametrize(
    "boundary, expected", [("sentence", [2, 4, 5]), ("text", [2, 4, 5]), ("stream", [0, 4, 5])]
)
def test_short_contexts_are_padded_by_boundary(boundary, expected):
    text = TextGraph(Vocabulary(WORDS), "whitespace", boundary)
    context_ids, found = text.contexts(tf.constant(["the cat"]), order=4, max_length=100)
    assert context_ids.numpy().tolist() == [expected] and found.numpy().all()


ENDS = ["a", "b", ".", "字", "é", "1", "a-b", "▁", "_number_", "aa", "😀"]


@pytest.mark.parametrize(
    "name",
    [
        "words",
        "whitespace",
        "characters",
        pytest.param("words+lower+numbers", marks=pytest.mark.long),
    ],
)
def test_the_end_of_a_text_has_its_last_tokens(name, cut_texts):
    text = TextGraph(Vocabulary(ENDS), name, "sentence")
    texts = cut_texts("abéßİ字-'’_.¡\t \u3000\ufeff\ufffd1½\u2028😀\0", 150)
    context_ids, found = text.contexts(tf.constant(texts), 4, 1 << 20)
    assert found.numpy().all()
    tokenizer = get_tokenizer(name)
    words = Vocabulary(ENDS)
    for cut, row in zip(texts, context_ids.numpy().tolist(), strict=True):
        tokens = tokenizer.split_beginning(cut.decode("utf-8", "replace"))
        assert row == [2, 2, 2, *words.encode(tokens).tolist()][-3:]


def test_only_the_end_of_a_long_text_is_read(monkeypatch):
    text = TextGraph(Vocabulary(ENDS), "words", "sentence")
    split = text.tokens.split
    read = []

    def split_and_measure(texts: tf.Tensor) -> tf.RaggedTensor:
        read.extend(map(len, texts.numpy()))
        return split(texts)

    monkeypatch.setattr(text.tokens, "split", split_and_measure)
    texts = tf.constant(
        ["a b . 字 " * 20_000, "b", "a " + "x" * 5000 + " b a", "b a a." + "x" * 99_999]
    )
    context_ids, found = text.contexts(texts, 4, 10_000)
    # the word x…x is longer than 10,000 bytes
    assert found.numpy().tolist() == [True, True, True, False]
    assert (
        context_ids[:3].numpy().tolist() == [[5, 6, 7], [2, 2, 5], [1, 5, 4]] and sum(read) < 25_000
    )
