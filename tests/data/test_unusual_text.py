"""Warnings about unusual text: each kind is named with a remedy, and usual text has none."""

import re

import pytest

from keras_nplm import InputError, encode_corpus, open_corpus
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.data.unusual_text import check_spaces, describe_unusual_text

PROSE = [
    f"The {noun} sees the small {other} , and then it sleeps ."
    for noun in "abc"
    for other in ("mouse", "fly")
]
PARAGRAPHS = [" ".join(PROSE * 4).replace(",", "")] * 100
UNKNOWN = [f"{sentence} word{i}a word{i}b word{i}c" for i, sentence in enumerate(PROSE * 150)]


@pytest.mark.parametrize(
    "lines, options, warnings",
    [
        pytest.param(PROSE * 200, {}, [], id="sentences"),
        pytest.param(PARAGRAPHS, {"boundary": "stream"}, [], id="a stream"),
        pytest.param(
            PARAGRAPHS, {}, ["lines have 264 tokens on average"], id="paragraphs as sentences"
        ),
        pytest.param(
            UNKNOWN,
            {"min_count": 2},
            ["20% of the train tokens are out of.*--tokenizer sentencepiece", "20%", "20%"],
            id="unknown words",
        ),
    ],
)
def test_unusual_text_is_named_with_a_remedy(tmp_path, lines, options, warnings):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = open_corpus(train=[str(path)])
    vocabulary = count_vocabulary(corpus, min_count=options.get("min_count", 1))
    encoded = encode_corpus(corpus, vocabulary, tmp_path / "encoded")
    found = describe_unusual_text(corpus, encoded, options.get("boundary", "sentence"))
    assert all(re.search(words, sentence) for words, sentence in zip(warnings, found, strict=True))


@pytest.mark.parametrize(
    "words, is_refused",
    [
        pytest.param("ฉัน แมว นั่ง อยู่ บน เสื่อ ใน บ้าน ที่ สวย", True, id="Thai"),
        pytest.param("나는 고양이 집에서 밥을 먹는다", False, id="Korean has spaces"),
    ],
)
@pytest.mark.parametrize("space", ["", " ", "\u200b"])
def test_a_text_without_spaces_is_sent_to_subwords(tmp_path, words, is_refused, space):
    path = tmp_path / "text.txt"
    lines = [space.join(words.split()[i % 4 :] * 2) + "." for i in range(40)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    check_spaces(open_corpus(train=[str(path)], tokenizer="sentencepiece"))
    corpus = open_corpus(train=[str(path)])
    if space or not is_refused:
        check_spaces(corpus)
        return
    with pytest.raises(InputError, match="must have spaces.* Fix: use `--tokenizer sentencepiece`"):
        check_spaces(corpus)
