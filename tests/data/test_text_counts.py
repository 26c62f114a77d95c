"""Characters, bytes and words of a text, its out-of-vocabulary words."""

import collections
import functools
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm import (
    Corpus,
    EncodedCorpus,
    InputError,
    Vocabulary,
    encode_corpus,
    open_corpus,
)
from keras_nplm.data import encoding, shards, text_counts
from keras_nplm.data.text_counts import TextCounter

LINES = [
    "The cat  sat\ton the mat. ",
    "",
    "Ein Häuschen 猫が好き, 2 × 3!",
    "the <unk> cat\u3000sat ",
] * 5


def count_plainly(lines: list[str]) -> dict[str, int]:
    """Characters and bytes of the lines with single spaces, and their words."""
    lines = [" ".join(line.split()) for line in lines]
    return {
        "characters": sum(len(line) for line in lines),
        "bytes": sum(len(line.encode()) for line in lines),
        "words": sum(len(line.split(" ")) for line in lines if line),
    }


@pytest.mark.parametrize(
    "way, tokenizer", [("files", "characters"), ("lines", "words+lower"), ("tokens", "whitespace")]
)
def test_each_encoding_counts_the_same_text(tmp_path, monkeypatch, tokenizer, way):
    (tmp_path / "text.txt").write_text("\n".join(LINES), encoding="utf-8")
    monkeypatch.setattr(shards, "BATCH_TOKENS", 3)
    monkeypatch.setattr(text_counts, "BLOCK_TYPES", 2)
    base, *steps = tokenizer.split("+")
    corpus = open_corpus(
        train=[str(tmp_path / "text.txt")],
        fractions=(0.6, 0.2, 0.2),
        tokenizer=base,
        normalise=steps,
    )
    in_lines = {"train": LINES[:12], "validation": LINES[12:16], "test": LINES[16:]}
    in_lines = {split: [line for line in lines if line] for split, lines in in_lines.items()}
    tokens = {split: [*corpus.sentences(split)] for split in in_lines}
    if way == "lines":  # any split that is not in files: all are encoded in this process
        corpus.splits["test"] = encoding.LineSplit(
            functools.partial(iter, LINES[16:]), corpus.splits["test"].tokenize
        )
    if way == "tokens":  # the text is the tokens, joined by spaces
        corpus = Corpus(
            "tokens",
            tokenizer,
            {split: functools.partial(iter, rows) for split, rows in tokens.items()},
        )
        in_lines = {split: map(" ".join, sentences) for split, sentences in tokens.items()}
    encoded = encode_corpus(corpus, Vocabulary(["the", "cat", "t", "▁"]), tmp_path / "corpus")
    for split, lines in in_lines.items():
        unknown = collections.Counter(itertools.chain.from_iterable(tokens[split]))
        for word in ("the", "cat", "t", "▁"):
            del unknown[word]
        blocks = [*encoded.unknown_words(split)]
        assert sum(map(collections.Counter, blocks), collections.Counter()) == unknown
        assert max(map(len, blocks)) == 2
        described = EncodedCorpus.load(tmp_path / "corpus").splits[split]
        totals = count_plainly([*lines])
        assert {name: described[name] for name in totals} == totals


def test_unknown_words_with_nul_are_refused(tmp_path):
    corpus = Corpus("tokens", "whitespace", {"train": lambda: iter([["the", "x\0y"]])})
    message = r"token must not contain white space or NUL. Received: 'x\\x00y'"
    with pytest.raises(InputError, match=message):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "corpus")


@given(st.lists(st.text("aé猫 \t\xa0\u3000b"), max_size=4))
def test_every_white_space_counts_as_one_character_between_words(lines):
    counter = TextCounter()
    counter.add_lines(lines)
    assert counter.totals == count_plainly(lines)
