"""Corpora are encoded as shards by one process or several, also after an interruption."""

import collections
import functools
import itertools
import os
import signal
from pathlib import Path

import numpy as np
import pytest

import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.data.tokenizers as tokenizers
import keras_nplm.data.word_counts as word_counts
from keras_nplm import Corpus, EncodedCorpus, InputError, RunError, Vocabulary, encode_corpus, open_corpus
from keras_nplm.data.corpora import SPLITS
from keras_nplm.data.corpora.text_files import read_lines
from keras_nplm.data.encoding import count_vocabulary, encode_sentences
from keras_nplm.data.tokenizers import NUMBER, STEPS, TOKENIZERS, is_number, load_forms, lower
from keras_nplm.data.worker_pool import run_in_processes
from keras_nplm.training.prepare import prepare_directory

SENTENCES = {"train": [["the", "cat"], ["a"], ["the", "dog", "the"]], "validation": [["cat"]], "test": [["dog", "a"]]}


@pytest.fixture
def corpus() -> Corpus:
    return Corpus("small", "whitespace", {split: lambda lines=lines: iter(lines) for split, lines in SENTENCES.items()})


@pytest.fixture
def vocabulary() -> Vocabulary:
    return Vocabulary(["the", "cat", "dog"])


def _read_bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_a_shard_holds_the_ids_of_all_sentences(tmp_path, monkeypatch, corpus, vocabulary):
    monkeypatch.setattr(word_counts, "BATCH_TOKENS", 1)
    encode_corpus(corpus, vocabulary, tmp_path)
    encoded = EncodedCorpus.load(tmp_path)
    assert encoded.ids("train").tolist() == [4, 5, 3, 1, 3, 4, 6, 4, 3]
    described = encoded.splits["train"]
    assert (described["sentences"], described["tokens"], described["unk_tokens"]) == (3, 6, 1)
    assert np.fromfile(tmp_path / "train.00000.ids", "<i4").tolist() == encoded.ids("train").tolist()
    assert (encoded.name, encoded.tokenizer, encoded.vocabulary_size) == ("small", "whitespace", 7)


def test_several_processes_write_the_bytes_of_one(tmp_path, monkeypatch, many_processes, write_odd_texts):
    files, options = [write_odd_texts(tmp_path)], dict(fractions=(0.7, 0.2, 0.1))
    corpus = open_corpus(train=files, **options)
    assert sum(len(split.chunks) for split in corpus.splits.values()) > 9
    vocabulary = count_vocabulary(corpus, min_count=2)
    encode_corpus(corpus, vocabulary, tmp_path / "several")

    monkeypatch.setattr(chunks, "count_processes", lambda: 1)
    alone = open_corpus(train=files, **options)
    assert alone == corpus and count_vocabulary(alone, min_count=2) == vocabulary
    encoded = encode_corpus(alone, vocabulary, tmp_path / "one")
    assert _read_bytes(tmp_path / "one") == _read_bytes(tmp_path / "several")

    lines = list(filter(str.strip, read_lines(sorted(tmp_path.glob("*.txt*")))))
    tokens = list(map(TOKENIZERS["words"], lines))
    assert list(itertools.chain.from_iterable(map(corpus.sentences, SPLITS))) == tokens
    train = tokens[: round(len(lines) * 0.7)]
    assert vocabulary == Vocabulary.build(train, min_count=2)
    np.testing.assert_array_equal(encoded.ids("train"), encode_sentences(train, vocabulary))


@pytest.mark.parametrize("steps", [["lower", "numbers"], STEPS])
def test_a_vocabulary_of_normalised_words_has_their_forms(tmp_path, monkeypatch, steps):
    dictionary = {"cats": "cat", "sat": "sit", "sits": "sit", "Polish": "Polish", "polish": "pole", "dogs": "dog"}
    monkeypatch.setattr(tokenizers, "load_english_lemmas", lambda: dictionary)
    load_forms.cache_clear()
    lines = ["The Cat SAT on 12 mats.", "cats sit; dogs, too: 3rd 1,000", "", "polish Polish <unk> c A"] * 9
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    corpus = open_corpus(train=[str(tmp_path / "text.txt")], normalise=steps)
    vocabulary = count_vocabulary(corpus, min_count=2)

    counts = collections.Counter()
    for token in itertools.chain(*map(TOKENIZERS["words"], [line for line in lines if line][: round(27 * 0.8)])):
        token = NUMBER if is_number(token) else lower(token)
        counts[dictionary.get(token, token) if "lemmas" in steps else token] += 1
    expected = sorted((word for word in counts if counts[word] > 1 and word != "<unk>"), key=lambda w: (-counts[w], w))
    assert vocabulary.words[4:] == expected
    forms = {"cats": "cat", "sat": "sit", "sits": "sit", "polish": "pole", "dogs": "dog"}
    assert vocabulary.forms == (forms if "lemmas" in steps else None)
    load_forms.cache_clear()


# interrupted encoding


def _prepare(text: str, directory: Path) -> EncodedCorpus:
    corpus = open_corpus(train=[text], fractions=(0.8, 0.1, 0.1))
    return prepare_directory(
        directory, corpus, {"boundary": "sentence"}, vocabulary_scope="train", min_count=1, max_size=None
    )[0]


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


def _interrupt(monkeypatch, text: str, directory: Path) -> None:
    """Encode, but end before the third shard."""
    rename, renamed = os.replace, []

    def kill(source, target):
        renamed.extend([target] if target.suffix == ".ids" else [])
        if len(renamed) == 3:
            raise _Killed
        rename(source, target)

    with monkeypatch.context() as context:
        context.setattr("os.replace", kill)
        with pytest.raises(_Killed):
            _prepare(text, directory)
    assert len(list((directory / "corpus").glob("train.*.ids"))) == 2


@pytest.mark.parametrize("change", ["time", "text", "vocabulary"])
def test_an_interrupted_encoding_resumes_unless_text_changed(tmp_path, monkeypatch, write_text, change):
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    text = write_text(tmp_path / "text.txt", b"the cat sat\nthe dog sat\n" * 10)
    _interrupt(monkeypatch, text, tmp_path / "model")
    shard, words = tmp_path / "model" / "corpus" / "train.00000.ids", ["sat", "the", "cat", "dog"]
    before, written = shard.stat().st_mtime_ns, os.stat(text).st_mtime_ns
    options = dict(train=[text], fractions=(0.8, 0.1, 0.1))
    if change == "vocabulary":
        words = ["dog", "cat"]
        encoded = encode_corpus(open_corpus(**options), Vocabulary(words), tmp_path / "model" / "corpus")
    else:
        if change == "text":  # of the same size and time
            words[2] = "cow"
            write_text(tmp_path / "text.txt", b"the cow sat\nthe dog sat\n" * 10)
        os.utime(text, ns=(1, 1) if change == "time" else (written, written))
        encoded = _prepare(text, tmp_path / "model")
        assert Vocabulary.load(tmp_path / "model" / "vocabulary.txt").words[4:] == words
    assert (shard.stat().st_mtime_ns == before) == (change == "time")
    encode_corpus(open_corpus(**options), Vocabulary(words), tmp_path / "whole")
    (encoded.directory / "counted.json").unlink(missing_ok=True)
    assert _read_bytes(encoded.directory) == _read_bytes(tmp_path / "whole")


def test_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch, write_text):
    paths = [write_text(tmp_path / f"{name}.txt", b"the cat\n") for name in "abc"]
    corpus = open_corpus(train=paths[:1], validation=paths[1:2], test=paths[2:])
    run_task = chunks.run_task

    def change_text(*arguments):
        result = run_task(*arguments)
        write_text(tmp_path / "a.txt", b"the dog\nand more\n")
        return result

    monkeypatch.setattr("keras_nplm.data.encoding.run_task", change_text)
    with pytest.raises(InputError, match="changed while they were read"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")
    with pytest.raises(InputError, match=r"corpus.json"):
        EncodedCorpus.load(tmp_path / "ids")


def test_errors_in_a_worker_process_are_raised_here(tmp_path, many_processes, write_text):
    paths = [write_text(tmp_path / f"{name}.txt", b"the cat sat on it\n" * 4) for name in "abc"]
    (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"the </s>\n")
    corpus = open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:], tokenizer="whitespace")
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")


def test_a_worker_process_that_dies_is_a_runtime_failure():
    for make_task in (functools.partial(signal.raise_signal, 9), len):  # killed, or a mistake of ours
        with pytest.raises(RunError, match="A worker process that read the text died .exit status -?[0-9]+"):
            list(run_in_processes(make_task, [(), ()], processes=2))
