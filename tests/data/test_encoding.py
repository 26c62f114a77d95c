"""Corpora are encoded as shards by one process or several, also after an interruption."""

import collections
import functools
import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import (
    Corpus,
    EncodedCorpus,
    InputError,
    Vocabulary,
    encode_corpus,
    open_corpus,
    register_tokenizer,
)
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoding import count_vocabulary
from keras_nplm.data.ids import BOS_ID, UNK_ID
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.text_counts import TextCounter
from keras_nplm.data.tokenizers.registry import get_tokenizer
from tests.files import read_untimed_files
from tests.kills import kill_at_rename
from tests.tokenizers import KINDS, CommaTokenizer, build_vocabulary

LINES = [
    "The cat  sat\ton the mat. ",
    "",
    " ",
    "Ein Häuschen 猫が好き, 2 × 3!",
    "the <unk> cat\u3000sat ",
    "the cat",
]
BOUNDARIES = ["sentence", "text", "stream"]


@functools.cache
def _build_vocabulary(kind: str) -> Vocabulary:
    """Some words of the lines; tokens without <unk> need a whole alphabet."""
    return build_vocabulary(kind, LINES[:3] if get_tokenizer(kind).has_unknown else LINES * 9)


def count_plainly(lines: list[str]) -> dict[str, int]:
    """Characters and bytes of the lines with single spaces, and their words."""
    lines = [" ".join(line.split()) for line in lines]
    return {
        "characters": sum(len(line) for line in lines),
        "bytes": sum(len(line.encode()) for line in lines),
        "words": sum(len(line.split(" ")) for line in lines if line),
    }


@settings(max_examples=30)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=20),
    kind=st.sampled_from([*KINDS, "words+lower"]),
    boundary=st.sampled_from(BOUNDARIES),
    size=st.integers(8, 90),
    end=st.integers(0, 20),
)
def test_a_text_is_encoded_as_its_lines(tmp_path_factory, lines, kind, boundary, size, end):
    """However it is cut, and killed at a rename of some number; blank lines end documents."""
    directory = tmp_path_factory.mktemp("text")
    lines += ["the cat"] * 8  # of each split
    (directory / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    vocabulary = _build_vocabulary(kind)
    with pytest.MonkeyPatch.context() as context:
        for name in (
            ("corpora.chunks.CHUNK_BYTES", size),
            ("shards.BATCH_TOKENS", 3),
            ("text_counts.BLOCK_TYPES", 2),
            ("encoded_corpus.PART", 7),
        ):
            context.setattr(f"keras_nplm.data.{name[0]}", name[1])
        base, *steps = kind.split("+")
        files = [str(directory / "text.txt")]
        corpus = open_corpus(
            train=files, fractions=(0.5, 0.25, 0.25), tokenizer=base, normalise=steps
        )
        encode = functools.partial(
            encode_corpus, corpus, vocabulary, directory / "corpus", boundary
        )
        with kill_at_rename(end):
            encode()
        encode()
        encoded = EncodedCorpus.load(directory / "corpus")
        parts = [part for split in SPLITS for part in encoded.parts(split)]
        blocks = [block for split in SPLITS for block in encoded.unknown_words(split)]
    ids = np.concatenate([encoded.ids(split) for split in SPLITS])
    np.testing.assert_array_equal(np.concatenate(parts), ids)
    assert max(map(len, parts)) <= 7
    expected = encode_lines(lines, vocabulary, kind, boundary)
    ngrams = (extract_ngrams(each, 3, boundary) for each in (ids, expected))
    np.testing.assert_array_equal(*ngrams)
    blank = sum(not line.strip() for line in lines) if boundary == "text" else 0
    assert np.count_nonzero(ids == BOS_ID) == blank
    number = len(extract_ngrams(encoded.ids("train"), 3, boundary))
    assert encoded.count_tokens_per_epoch(boundary) == number

    tokens = itertools.chain.from_iterable(map(vocabulary.tokenizer(kind).split, lines))
    unknown = collections.Counter(
        token for token in tokens if vocabulary.encode([token]).tolist() == [UNK_ID]
    )
    assert sum(map(collections.Counter, blocks), collections.Counter()) == unknown
    assert max(map(len, blocks), default=0) <= 2
    totals = count_plainly([line for line in lines if line.strip()])
    for name, total in totals.items():
        assert sum(split[name] for split in encoded.splits.values()) == total


@given(st.lists(st.text("aé猫 \t\xa0\u3000b"), max_size=4))
def test_every_white_space_counts_as_one_character_between_words(lines):
    counter = TextCounter()
    counter.add_lines(lines)
    assert counter.totals == count_plainly(lines)


def test_tokens_without_a_text_are_their_own_text(tmp_path):
    rows = [["the", "cat"], ["été"]]
    corpus = Corpus("tokens", "whitespace", {"train": rows.__iter__})
    encoded = encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "corpus")
    totals = count_plainly([*map(" ".join, rows)])
    assert encoded.splits["train"].items() >= totals.items()


def test_several_processes_write_the_bytes_of_one(
    tmp_path, monkeypatch, many_processes, write_odd_texts
):
    files = [write_odd_texts(tmp_path), str(tmp_path / "a.txt")]
    options = dict(fractions=(0.7, 0.2, 0.1))
    corpus = open_corpus(train=files, **options)
    assert sum(len(split.chunks) for split in corpus.splits.values()) > 9
    vocabulary = count_vocabulary(corpus, min_count=2)
    encode_corpus(corpus, vocabulary, tmp_path / "several")
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", 1 << 30)
    alone = open_corpus(train=files, **options)
    assert alone == corpus and count_vocabulary(alone, min_count=2) == vocabulary
    encode_corpus(alone, vocabulary, tmp_path / "one")
    assert read_untimed_files(tmp_path / "one") == read_untimed_files(tmp_path / "several")
    assert vocabulary == Vocabulary.build(corpus.sentences("train"), min_count=2)


@pytest.mark.parametrize("change", ["time", "text", "vocabulary"])
def test_finished_shards_are_kept_unless_the_text_changed(tmp_path, monkeypatch, change):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    path = tmp_path / "text.txt"
    path.write_bytes(b"the cat sat\nthe dog sat\n" * 10)
    shard = tmp_path / "ids" / "train.00000.ids"
    words = ["the", "cat"]

    def encode(directory):
        corpus = open_corpus(train=[str(path)])
        encode_corpus(corpus, Vocabulary(words), tmp_path / directory)

    with kill_at_rename("corpus.json"):
        encode("ids")
    written, before = path.stat().st_mtime_ns, shard.stat().st_mtime_ns
    if change == "vocabulary":
        words = ["dog"]
    if change == "text":  # of the same size and time
        path.write_bytes(b"the cow sat\nthe dog sat\n" * 10)
    os.utime(path, ns=(1, 1) if change == "time" else (written, written))
    encode("ids")
    assert (shard.stat().st_mtime_ns == before) == (change == "time")
    encode("whole")
    assert read_untimed_files(tmp_path / "ids") == read_untimed_files(tmp_path / "whole")


def test_errors_in_a_worker_process_are_raised_here(tmp_path, many_processes):
    (tmp_path / "text.txt").write_text("the cat sat on it\n" * 9 + "the </s>\n")
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], tokenizer="whitespace")
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")


def test_text_that_changes_while_it_is_read_is_refused(tmp_path, forget_tokenizers):
    path = tmp_path / "text.txt"
    path.write_text("the,cat\n" * 9)

    class Changing(CommaTokenizer):
        def split(self, line):
            path.write_text("the,dog\nand,more\n" * 9)
            return super().split(line)

    register_tokenizer(Changing)
    corpus = open_corpus(train=[str(path)], tokenizer="commas")
    with pytest.raises(InputError, match="changed while they were read"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")
    with pytest.raises(InputError, match="an encoded corpus"):
        EncodedCorpus.load(tmp_path / "ids")
