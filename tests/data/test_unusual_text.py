"""Warnings about unusual text: each kind is named with a remedy, and usual text has none."""

import pytest

from keras_nplm import open_corpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.data.unusual_text import describe_unusual_text

PROSE = [
    f"The {noun} sees the small {other} , and then it sleeps ."
    for noun in "cat dog bird".split()
    for other in "mouse fly".split()
]


def _describe(tmp_path, lines, *, name="text.txt", tokenizer="words", boundary="sentence", min_count=1):
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = open_corpus(train=[str(path)], tokenizer=tokenizer)
    encoded = encode_corpus(corpus, count_vocabulary(corpus, min_count=min_count), tmp_path / "encoded")
    return describe_unusual_text(corpus, encoded, boundary)


def test_usual_prose_has_no_warning(tmp_path):
    assert _describe(tmp_path, PROSE * 200) == []
    corpus = open_corpus("python_reference")
    encoded = encode_corpus(corpus, count_vocabulary(corpus, min_count=2), tmp_path / "reference")
    assert describe_unusual_text(corpus, encoded, "sentence") == []


def test_a_text_of_few_tokens(tmp_path):
    (warning,) = _describe(tmp_path, PROSE * 20)
    assert "only 1,152 tokens" in warning and "keras-nplm ngram" in warning


def test_many_unknown_words(tmp_path):
    lines = [f"{sentence} word{i}a word{i}b word{i}c" for i, sentence in enumerate(PROSE * 150)]
    warnings = _describe(tmp_path, lines, min_count=2)
    assert [warning.split("%")[0] for warning in warnings] == ["20"] * 3
    assert "of the train tokens are out of the vocabulary" in warnings[0] and "--tokenizer sentencepiece" in warnings[0]


@pytest.mark.parametrize("line", ["我今天去北京大学看书，然后回家。", "ภาษาไทยไม่มีช่องว่างระหว่างคำ"])
def test_a_script_without_spaces(tmp_path, line):
    assert any("without spaces" in warning for warning in _describe(tmp_path, [line] * 2000))
    assert not any("without spaces" in w for w in _describe(tmp_path, [line] * 2000, tokenizer="characters"))


def test_segmented_chinese_has_spaces(tmp_path):
    assert not _describe(tmp_path, ["我 今天 去 北京 大学 看书 ， 然后 回家 。"] * 2000, tokenizer="whitespace")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table(tmp_path, delimiter):
    rows = [delimiter.join([str(i), sentence.replace(",", ""), "en"]) for i, sentence in enumerate(PROSE * 200)]
    assert any("looks like a table" in warning for warning in _describe(tmp_path, rows, min_count=1))


def test_a_file_named_csv(tmp_path):
    (warning,) = _describe(tmp_path, PROSE * 200, name="text.csv")
    assert "text.csv looks like a table" in warning


def test_lines_of_many_sentences(tmp_path):
    paragraphs = [" ".join(PROSE * 4).replace(",", "")] * 100
    (warning,) = _describe(tmp_path, paragraphs)
    assert "264 tokens on average" in warning
    assert not _describe(tmp_path, paragraphs, boundary="stream")
