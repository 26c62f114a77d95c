"""Subwords in the graph are those of Python, on any text and at the end of any text."""

import functools
import io
import sys

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2

from keras_nplm import Vocabulary
from keras_nplm.data.subwords import Subwords
from keras_nplm.serving.text import TextGraph

LINES = ["the cat sat on the mat, the hat", "www wwww 0000 00 000", "Straße ОЙ 我们可以 我们 数据"]
LINES = [*LINES, "a\xa0b:\u3000c é"] * 9
EXAMPLES = [
    "",
    " ",
    "the cats  sat ",
    "wwwwwwwww 0000000000",
    "▁",
    "a▁b ▁▁ c",
    "我们可以我们",
    "\ufeff\ufffd",
    "☃\0\n\t<s> <unk> <0x41>",
]
TEXTS = st.text() | st.text("thecaSОé▁ 0w我们\xa0\0<s>")


@functools.cache
def _build_vocabulary(kind: str) -> Vocabulary:
    return Vocabulary.from_subwords(Subwords.train(LINES, 330, kind))


@functools.cache
def _build(
    kind: str, lower: str = ""
) -> tuple[Vocabulary, TextGraph, tf.types.experimental.PolymorphicFunction]:
    vocabulary = _build_vocabulary(kind)
    text = TextGraph(vocabulary, f"sentencepiece{lower}", "sentence")
    texts = tf.TensorSpec([None], tf.string)
    return vocabulary, text, tf.function(text.ids, [texts], autograph=False)


def _check(kind: str, texts: list[bytes], lower: str = "") -> None:
    vocabulary, _, encode = _build(kind, lower)
    tokenize = vocabulary.tokenizer(f"sentencepiece{lower}").split
    expected = [
        vocabulary.encode(tokenize(text.decode("utf-8", "replace"))).tolist() for text in texts
    ]
    assert encode(tf.constant(texts, tf.string)).to_list() == expected


@pytest.mark.parametrize(
    "kind, lower",
    [
        pytest.param("unigram", "", id="unigram"),
        pytest.param("bpe", "+lower", id="byte pairs in lower case"),
    ],
)
def test_subwords_are_those_of_python(kind, lower):
    invalid = [np.random.default_rng(size).bytes(size) for size in range(20)]
    texts = [*map(str.encode, [*EXAMPLES, *LINES[:4]]), *invalid]
    for batch in (texts, [], [b""]):
        _check(kind, batch, lower)


@pytest.mark.long
@given(kind=st.sampled_from(["unigram", "bpe"]), text=TEXTS)
@settings(max_examples=150, deadline=None)
def test_any_text_has_the_subwords_of_python(kind, text):
    _check(kind, [text.encode()])


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_every_character_has_the_subwords_of_python(kind):
    """Each character of the first two planes, and a sample of the others.

    The graph knows a character by its bytes: nothing tells the later planes apart.
    """
    planes = range(0x20000)
    sample = range(0x20000, sys.maxunicode + 1, 61)
    codes = [code for code in (*planes, *sample, sys.maxunicode) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(codes), 1 << 16):
        characters = [chr(code) for code in codes[start : start + (1 << 16)]]
        text = "".join(f"{character}a{character} " for character in characters)
        _check(kind, [text.encode()])


_SYMBOLS = ["<U+00A0>", "<mask>", "at", "<U+D800>", "<U+110000>", "x.*"]


def _make_model(kind: str, unused: float) -> bytes:
    """Train a model with user-defined symbols, and mark a share of its pieces as unused."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        model_type=kind,
        vocab_size=330,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name="identity",
        user_defined_symbols=_SYMBOLS,
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    random = np.random.default_rng(1)
    for piece in proto.pieces:
        if piece.type == piece.NORMAL and piece.piece != "▁" and random.random() < unused:
            piece.type = piece.UNUSED
    return proto.SerializeToString()


@pytest.mark.parametrize("kind", [pytest.param("unigram", marks=pytest.mark.long), "bpe"])
def test_unused_pieces_and_symbols_are_those_of_sentencepiece(kind):
    model = _make_model(kind, 0.4)
    random = np.random.default_rng(0)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    subwords = Subwords(model)
    letters = [*"thecaw0 <", *_SYMBOLS]
    texts = ["".join(random.choice(letters, 20)).strip() for _ in range(50)] + [
        *_SYMBOLS,
        "<mask>" * 3,
        "☃at <at>",
    ]
    served = TextGraph(Vocabulary.from_subwords(subwords), "sentencepiece", "sentence").ids(
        tf.constant(texts)
    )
    for text, ids in zip(texts, served.to_list(), strict=True):
        names = [subwords.words[i - 4] for i in ids]
        pieces = [processor.encode(word, out_type=str) or ["▁"] for word in text.split(" ")]
        shown = [name.replace("<U+003C>", "<") for name in names]
        assert shown == [piece for pieces_of_word in pieces for piece in pieces_of_word]
        assert ids == subwords.encode_ids(text).tolist()
        assert subwords.decode(names) == text


@pytest.mark.parametrize("kind", ["unigram", pytest.param("bpe", marks=pytest.mark.long)])
def test_the_end_of_a_text_has_its_last_subwords(kind, cut_texts):
    _, text, encode = _build(kind)
    texts = cut_texts("thecat0w我们é▁☃\0     ", 60)
    context_ids, found = text.contexts(tf.constant(texts), 4, 1 << 20)
    assert found.numpy().all()
    np.testing.assert_array_equal(
        context_ids, [[2, 2, 2, *ids][-3:] for ids in encode(tf.constant(texts)).to_list()]
    )
