"""Corpora are encoded as shards by one process or several, also after an interruption."""

import itertools
import os

import numpy as np
import pytest

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm import (
    EncodedCorpus,
    InputError,
    Options,
    Vocabulary,
    encode_corpus,
    open_corpus,
    register_tokenizer,
)
from keras_nplm.data.corpora.text_files import read_lines
from keras_nplm.data.corpus import SPLITS
from keras_nplm.data.encoding import count_vocabulary, encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.data.shards import encode_lines
from keras_nplm.data.tokenizers.words import split_words
from keras_nplm.training.run import Run
from tests.tokenizers import KINDS, CommaTokenizer


def test_several_processes_write_the_bytes_of_one(
    tmp_path, monkeypatch, many_processes, write_odd_texts, read_files
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
    encoded = encode_corpus(alone, vocabulary, tmp_path / "one")
    assert read_files(tmp_path / "one") == read_files(tmp_path / "several")

    lines = list(filter(str.strip, read_lines(sorted(tmp_path.glob("*.txt*")))))
    tokens = list(map(split_words, lines))
    assert list(itertools.chain.from_iterable(map(corpus.sentences, SPLITS))) == tokens
    train = tokens[: round(len(lines) * 0.7)]
    assert vocabulary == Vocabulary.build(train, min_count=2)
    assert (encoded.ids("train") == encode_sentences(train, vocabulary)).all()


@pytest.mark.parametrize(
    "tokenizer",
    [kind if kind == "words" else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS],
)
def test_blank_lines_end_the_documents_of_a_text(tmp_path, many_processes, tokenizer):
    text = "\n\nthe cat\nsat\n \n\nthe end\n\n" * 4
    (tmp_path / "text.txt").write_text(text)
    corpus = open_corpus(
        train=[str(tmp_path / "text.txt")], tokenizer=tokenizer, fractions=(0.5, 0.25, 0.25)
    )
    vocabulary = count_vocabulary(corpus)
    for boundary, documents in (("text", 20), ("sentence", 0)):
        encoded = encode_corpus(corpus, vocabulary, tmp_path / boundary, boundary)
        assert sum(counts["document_ends"] for counts in encoded.splits.values()) == documents
        number = len(extract_ngrams(encoded.ids("train"), 3, boundary))
        run = Run(tmp_path, Options.of(boundary=boundary), {}, encoded, vocabulary)
        assert encoded.count_tokens_per_epoch(boundary) == run.ngrams_per_epoch == number
        ids = np.concatenate([encoded.ids(split) for split in SPLITS])
        expected = encode_lines(text.split("\n"), vocabulary, tokenizer, boundary)
        np.testing.assert_array_equal(
            extract_ngrams(ids, 3, boundary), extract_ngrams(expected, 3, boundary)
        )


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


@pytest.mark.parametrize("change", ["time", "text", "vocabulary"])
def test_an_interrupted_encoding_resumes_unless_text_changed(
    tmp_path, monkeypatch, read_files, change
):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    path = tmp_path / "text.txt"
    rename = os.replace
    words = ["the", "cat"]
    path.write_bytes(b"the cat sat\nthe dog sat\n" * 10)

    def encode(directory):
        encode_corpus(open_corpus(train=[str(path)]), Vocabulary(words), tmp_path / directory)

    def kill(source, target):
        if target.name == "train.00002.ids":
            raise _Killed
        rename(source, target)

    with monkeypatch.context() as context, pytest.raises(_Killed):
        context.setattr("os.replace", kill)
        encode("ids")
    shard = tmp_path / "ids" / "train.00000.ids"
    written = path.stat().st_mtime_ns
    before = shard.stat().st_mtime_ns
    if change == "vocabulary":
        words = ["dog"]
    if change == "text":  # of the same size and time
        path.write_bytes(b"the cow sat\nthe dog sat\n" * 10)
    os.utime(path, ns=(1, 1) if change == "time" else (written, written))
    encode("ids")
    assert (shard.stat().st_mtime_ns == before) == (change == "time")
    encode("whole")
    assert read_files(tmp_path / "ids") == read_files(tmp_path / "whole")


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
