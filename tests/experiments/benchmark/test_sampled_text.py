"""Sampled text has the n-grams of its corpus, the number of words that was asked for, and a growing vocabulary."""

import itertools

import pytest

from keras_nplm import Corpus
from keras_nplm.experiments.benchmark import sampled_text
from keras_nplm.experiments.benchmark.sampled_text import sample_texts

LINES = [["a", "b", "c", f"d{number % 7}"] for number in range(70)] + [[], ["b", "a", "c"], ["c"]]
CORPUS = Corpus("lines", "whitespace", {"train": lambda: iter(LINES)})


def read_lines(directory, split="train"):
    return [line.split() for line in (directory / f"{split}.txt").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("tokens", [1, 999, 50_000])
def test_the_text_has_this_number_of_words_and_no_empty_line(tmp_path, monkeypatch, tokens):
    monkeypatch.setattr(sampled_text, "_STREAMS", 32)  # several blocks
    sample_texts(tmp_path, CORPUS, tokens)
    lines = read_lines(tmp_path)
    assert sum(map(len, lines)) == tokens and all(lines)
    assert sum(map(len, read_lines(tmp_path, "validation"))) == 10_000
    assert read_lines(tmp_path, "validation") != read_lines(tmp_path, "test")


def test_the_same_corpus_gives_the_same_text(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        sample_texts(tmp_path / name, CORPUS, 5_000)
    assert read_lines(tmp_path / "first") == read_lines(tmp_path / "second")


def test_the_vocabulary_grows_with_the_text(tmp_path):
    sizes = []
    for tokens in (2_000, 20_000):
        sample_texts(tmp_path, CORPUS, tokens)
        sizes.append(len({word for line in read_lines(tmp_path) for word in line}))
    assert sizes[1] > 3 * sizes[0]


@pytest.mark.parametrize("weights, length", [((1, 0), 3), ((0, 1), 2)])
def test_the_words_follow_each_other_as_in_the_corpus(tmp_path, monkeypatch, weights, length):
    monkeypatch.setattr(sampled_text, "_WEIGHTS", weights)
    monkeypatch.setattr(sampled_text, "_NEW", 0)
    monkeypatch.setattr(sampled_text, "_STREAMS", 1)  # passages are joined at any place
    sample_texts(tmp_path, CORPUS, 200)

    def list_ngrams(lines):
        words = [word for line in lines if line for word in (*line, ".")]
        return set(zip(*(words[start:] for start in range(length)), strict=False))

    (first, *_), real = read_lines(tmp_path), list_ngrams([*LINES, *LINES])
    sampled = list_ngrams(read_lines(tmp_path)[:-1])
    assert first and sampled <= real
    shorter = {ngram[1:] for ngram in real}
    assert len(sampled) > len(shorter) / 2


def test_sentences_begin_as_in_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(sampled_text, "_WEIGHTS", (0, 0))
    monkeypatch.setattr(sampled_text, "_NEW", 0)
    monkeypatch.setattr(sampled_text, "_STREAMS", 1)
    sample_texts(tmp_path, CORPUS, 200)
    assert {line[0] for line in read_lines(tmp_path)} <= {"a", "b", "c"}


def test_trigrams_are_rarer_with_less_weight(tmp_path, monkeypatch):
    def count_real(weights):
        monkeypatch.setattr(sampled_text, "_WEIGHTS", weights)
        sample_texts(tmp_path, CORPUS, 20_000)
        real = {pair for line in LINES for pair in itertools.pairwise(line)}
        pairs = [pair for line in read_lines(tmp_path) for pair in itertools.pairwise(line)]
        return sum(pair in real for pair in pairs) / len(pairs)

    assert count_real((0.5, 0.35)) > count_real((0, 0)) + 0.2
