"""Text in pieces, counted and encoded in several processes: the same ids as in one, whatever happens."""

import collections
import gzip
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.corpora.pieces as pieces
import keras_nplm.data.worker_pool as worker_pool
from keras_nplm import (
    EncodedCorpus,
    InputError,
    RunError,
    Vocabulary,
    encode_corpus,
    open_corpus,
)
from keras_nplm.data.corpora.compressed import decode_lines
from keras_nplm.data.corpora.text_files import read_lines
from keras_nplm.data.encoding import count_vocabulary, encode_sentences
from keras_nplm.data.tokenizers import TOKENIZERS
from keras_nplm.data.word_counts import WordCounts
from keras_nplm.data.worker_pool import run_in_processes
from keras_nplm.training.prepare import prepare_directory

LINES = ["The cat sat.", "", "  ", "it's 猫 été", "\u2028 x", "a" * 40, "\u00a0", "the cat", "<unk> the"]


@pytest.fixture
def many_processes(monkeypatch):
    """Text of whatever size is cut small and read by three processes."""
    monkeypatch.setattr(pieces, "PIECE_BYTES", 16)
    monkeypatch.setattr(pieces, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(pieces, "count_processes", lambda: 3)


def _write(path: Path, text: bytes) -> str:
    if path.suffix == ".gz":
        text = gzip.compress(text)
    elif path.suffix == ".zst":
        half = len(text) // 2  # two frames, as parallel compressors write
        compress = zstandard.ZstdCompressor(write_checksum=True).compress  # as the program `zstd` does
        text = compress(text[:half]) + compress(text[half:])
    path.write_bytes(text)
    return str(path)


def _bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "é", "\ud800", "x y", "\n"]), max_size=9)), st.integers(1, 4))
def test_counts_that_were_spilled_are_those_of_a_counter(tmp_path_factory, sentences, limit):
    counts = WordCounts(tmp_path_factory.mktemp("runs"), types_in_memory=limit)
    for sentence in sentences:
        counts.update(sentence)
    expected = collections.Counter(itertools.chain.from_iterable(sentences))
    pairs = list(counts.pairs())
    assert len(pairs) == len(expected) and dict(pairs) == expected
    assert bool(counts.runs) == any(
        len(set(itertools.chain(*sentences[:i]))) > limit for i in range(len(sentences) + 1)
    )


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6), min_size=1),
    st.integers(1, 3),
    st.none() | st.integers(1, 9),
    st.integers(1, 3),
)
def test_a_vocabulary_is_the_same_whatever_memory_it_is_counted_in(sentences, min_count, max_size, at_a_time):
    def build():
        try:
            return Vocabulary.build(sentences, min_count=min_count, max_size=max_size).words
        except InputError as error:
            return str(error)

    with pytest.MonkeyPatch.context() as context:
        whole = build()
        context.setattr("keras_nplm.data.word_counts.TYPES_IN_MEMORY", 2)
        context.setattr("keras_nplm.data.vocabulary._WORDS_AT_A_TIME", at_a_time)
        assert build() == whole


@given(st.text())
def test_a_line_has_a_token_by_any_tokenizer_if_it_has_anything_but_white_space(line):
    for tokenize in TOKENIZERS.values():
        assert bool(tokenize(line)) == bool(line.strip())


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(LINES)), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans(), st.integers(1, 40)
)
def test_pieces_have_all_lines_of_a_file_once(tmp_path_factory, lines, end, closed, mark, size):
    text = (b"\xef\xbb\xbf" if mark else b"") + (end.join(lines) + end * closed).encode()
    if not text:
        return
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(pieces, "PIECE_BYTES", size)
        cut = pieces.cut_files([path])
    found = [line for piece in cut for line in itertools.chain(*itertools.starmap(pieces.read_range, piece.ranges))]
    assert found == list(decode_lines(io.BytesIO(text), "text"))
    assert len(cut) <= len(text) // size + 1


@pytest.mark.parametrize("tokenizer", ["words", "whitespace"])
def test_several_processes_write_the_bytes_of_one(tmp_path, monkeypatch, many_processes, tokenizer):
    """Files without a last line end, with CR LF, a byte order mark, empty lines, a huge line, wide characters; gz."""
    texts = {
        "a.txt": "\ufeffThe cat sat.\r\n\r\nthe end".encode(),
        "b.txt": "\n\n猫猫猫猫 猫猫猫\n\n été été\n".encode(),
        "c.txt.gz": b"the compressed cat\nsat\n" * 9,
        "d.txt": b"huge " * 100 + b"\nsmall\n",
        "e.txt": b"x\n",
        "f.txt": b"y <unk>",
        "g.txt.zst": b"the other\ncompressed cat\n" * 9,
    }
    for name, text in texts.items():
        _write(tmp_path / name, text)
    files = [str(tmp_path / "*.txt*")]
    corpus = open_corpus(train=files, fractions=(0.7, 0.2, 0.1), tokenizer=tokenizer)
    assert sum(len(split.pieces) for split in corpus.splits.values()) > 9
    vocabulary = count_vocabulary(corpus, min_count=2)
    encode_corpus(corpus, vocabulary, tmp_path / "several")

    monkeypatch.setattr(pieces, "count_processes", lambda: 1)
    alone = open_corpus(train=files, fractions=(0.7, 0.2, 0.1), tokenizer=tokenizer)
    assert alone == corpus
    assert count_vocabulary(alone, min_count=2) == vocabulary == Vocabulary.build(alone.sentences("train"), min_count=2)
    encoded = encode_corpus(alone, vocabulary, tmp_path / "one")
    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "several")

    tokenize = TOKENIZERS[tokenizer]
    lines = list(filter(None, map(tokenize, read_lines(sorted(tmp_path.glob("*.txt*"))))))
    assert list(itertools.chain.from_iterable(map(corpus.sentences, ("train", "validation", "test")))) == lines
    cut = round(len(lines) * 0.7)
    np.testing.assert_array_equal(encoded.ids("train"), encode_sentences(lines[:cut], vocabulary))


def test_no_line_is_tokenised_more_than_once_a_pass(tmp_path, monkeypatch):
    calls = []
    split = TOKENIZERS["words"]
    monkeypatch.setitem(TOKENIZERS, "words", lambda line: calls.append(line) or split(line))
    path = _write(tmp_path / "text.txt", b"".join(b"line %d\n\n" % i for i in range(100)))
    corpus = open_corpus(train=[path], fractions=(0.8, 0.1, 0.1))
    assert not calls
    vocabulary = count_vocabulary(corpus)
    assert calls == [f"line {i}" for i in range(80)]
    encode_corpus(corpus, vocabulary, tmp_path / "ids")
    assert calls[80:] == [f"line {i}" for i in range(100)]


def test_an_error_in_another_process_is_this_ones(tmp_path, many_processes):
    paths = [_write(tmp_path / f"{name}.txt", b"the cat sat on it\n" * 4) for name in "abc"]
    (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"the </s>\n")
    corpus = open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:], tokenizer="whitespace")
    with pytest.raises(InputError, match="reserved token </s>"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")
    with pytest.raises(InputError, match=r"b.txt is not UTF-8 text \(byte 54\)"):
        (tmp_path / "b.txt").write_bytes(b"the cat sat on it\n" * 3 + b"\xe9\n")
        count_vocabulary(open_corpus(train=paths[1:2], validation=paths[:1], test=paths[2:]))


def test_a_process_that_is_lost_is_told(tmp_path):
    with pytest.raises(RunError, match="A worker process that read the text died .exit status -?[0-9]+"):
        list(run_in_processes("signal:raise_signal", {"signalnum": 9}, [{}, {}], processes=2))
    with pytest.raises(RunError, match="resume"):
        list(
            run_in_processes("keras_nplm.data.word_counts:PieceCounter", {"tokenizer": "words"}, [{}, {}], processes=2)
        )


def test_processes_that_encode_import_neither_keras_nor_tensorflow():
    script = Path(worker_pool.__file__).with_name("worker.py")
    options = {"tokenizer": "words", "words": [], "directory": ""}
    job = json.dumps({"task": "keras_nplm.data.shards:PieceEncoder", "options": options})
    code = (
        f"import runpy, sys; runpy.run_path({str(script)!r}, run_name='__main__'); "
        "print(sorted({'keras', 'tensorflow', 'tensorflow_datasets'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, input=job + "\n", capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]" and done.stdout == "{}\n"


KILLED = """
import sys, keras_nplm.data.corpora.pieces as pieces, keras_nplm.data.shards as shards
from pathlib import Path
from keras_nplm import open_corpus
from keras_nplm.training.prepare import prepare_directory
pieces.PIECE_BYTES, pieces.PARALLEL_BYTES, pieces.count_processes = 200_000, 0, lambda: 2
corpus = open_corpus(train=[sys.argv[1]], fractions=(0.8, 0.1, 0.1))
prepare_directory(Path(sys.argv[2]), corpus, {}, vocabulary_scope="train", min_count=1, max_size=None)
"""


def _prepare(text: str, directory: Path):
    corpus = open_corpus(train=[text], fractions=(0.8, 0.1, 0.1))
    options = dict(vocabulary_scope="train", min_count=1, max_size=None)
    return prepare_directory(directory, corpus, {}, **options)[0]


def test_encoding_that_was_killed_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200_000)
    random = np.random.default_rng(0)
    lines = (" ".join(f"w{word:x}" for word in random.integers(0, 5000, 20)) for _ in range(60_000))
    text = _write(tmp_path / "text.txt", "\n".join(lines).encode())
    shards = tmp_path / "killed" / "corpus"
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, text, str(tmp_path / "killed")], start_new_session=True
    ) as run:
        while run.poll() is None and len(list(shards.glob("train.*.ids"))) < 3:
            time.sleep(0.005)
        os.killpg(run.pid, signal.SIGKILL)
    found = {path.name: path.stat() for path in shards.glob("train.*.ids")}
    assert 3 <= len(found) < 20 and (shards / "plan.json").exists() and not (shards / "corpus.json").exists()

    counted = []
    monkeypatch.setattr("keras_nplm.training.prepare.count_vocabulary", lambda *_, **__: counted.append(1))
    encoded = _prepare(text, tmp_path / "killed")
    monkeypatch.undo()
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200_000)
    assert not counted  # nor were its words counted again
    for name, stat in found.items():
        assert (shards / name).stat().st_mtime_ns == stat.st_mtime_ns and (shards / name).stat().st_ino == stat.st_ino
    whole = _prepare(text, tmp_path / "whole")
    assert _bytes(encoded.directory) == _bytes(whole.directory)
    assert (tmp_path / "killed" / "vocabulary.txt").read_bytes() == (tmp_path / "whole" / "vocabulary.txt").read_bytes()


class _Killed(BaseException):
    """Stands for kill -9: nothing in the package can catch it."""


def _interrupted(monkeypatch, text: str, directory: Path) -> None:
    """Encode, but end before the third shard."""
    rename, renamed = os.replace, []

    def killed(source, target):
        renamed.extend([target] if target.suffix == ".ids" else [])
        if len(renamed) == 3:
            raise _Killed
        rename(source, target)

    with monkeypatch.context() as context:
        context.setattr("os.replace", killed)
        with pytest.raises(_Killed):
            _prepare(text, directory)
    assert len(list((directory / "corpus").glob("train.*.ids"))) == 2


@pytest.mark.parametrize("change", ["text", "vocabulary"])
def test_text_that_changed_meanwhile_is_encoded_anew(tmp_path, monkeypatch, many_processes, change):
    monkeypatch.setattr(pieces, "count_processes", lambda: 1)
    text = _write(tmp_path / "text.txt", b"the cat sat\nthe dog sat\n" * 10)
    _interrupted(monkeypatch, text, tmp_path / "model")
    if change == "text":
        _write(tmp_path / "text.txt", b"the cow sat\nthe dog sat\n" * 10)  # of the same size
        os.utime(text, ns=(1, 1))
        encoded = _prepare(text, tmp_path / "model")
        assert Vocabulary.load(tmp_path / "model" / "vocabulary.txt").words[4:] == ["sat", "the", "cow", "dog"]
    else:
        corpus = open_corpus(train=[text], fractions=(0.8, 0.1, 0.1))
        encoded = encode_corpus(corpus, Vocabulary(["dog", "cat"]), tmp_path / "model" / "corpus")
        assert encoded.ids("train")[:8].tolist() == [1, 5, 1, 3, 1, 4, 1, 3]
        (tmp_path / "model" / "corpus" / "counted.json").unlink()  # which `prepare_directory` would have done
        Vocabulary(["dog", "cat"]).save(tmp_path / "model" / "vocabulary.txt")
    vocabulary = Vocabulary.load(tmp_path / "model" / "vocabulary.txt")
    encode_corpus(open_corpus(train=[text], fractions=(0.8, 0.1, 0.1)), vocabulary, tmp_path / "whole")
    assert _bytes(encoded.directory) == _bytes(tmp_path / "whole")


def test_text_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    paths = [_write(tmp_path / f"{name}.txt", b"the cat\n") for name in "abc"]
    corpus = open_corpus(train=paths[:1], validation=paths[1:2], test=paths[2:])
    work_through = pieces.run_task

    def meanwhile(*arguments):
        result = work_through(*arguments)
        _write(tmp_path / "a.txt", b"the dog\nand more\n")
        return result

    monkeypatch.setattr("keras_nplm.data.encoding.run_task", meanwhile)
    with pytest.raises(InputError, match="changed while they were read"):
        encode_corpus(corpus, Vocabulary(["the"]), tmp_path / "ids")
    with pytest.raises(InputError, match=r"corpus.json"):
        EncodedCorpus.load(tmp_path / "ids")


def test_a_split_is_read_in_parts(tmp_path):
    paths = [_write(tmp_path / f"{name}.txt", b"the cat sat\n" * 5) for name in "abc"]
    encoded = encode_corpus(
        open_corpus(train=paths[:1], validation=paths[1:2], test=paths[2:]),
        Vocabulary(["the", "cat"]),
        tmp_path / "ids",
    )
    shards, ids = encoded.shards("train"), encoded.ids("train")
    assert len(shards) == len(ids) == 20
    np.testing.assert_array_equal(np.concatenate(list(shards.parts(7))), ids)
    np.testing.assert_array_equal(encoded.frequencies(), np.bincount(ids, minlength=6))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_an_archive_that_is_damaged_or_cut_short_is_refused(tmp_path, suffix):
    path = Path(_write(tmp_path / f"text{suffix}", b"".join(b"line %d\n" % i for i in range(100_000))))
    whole = path.read_bytes()
    assert len(list(read_lines([path]))) == 100_000
    flipped = whole[:999] + b"\xff" * 50 + whole[1049:]
    for damaged in (whole[:-9], whole[: len(whole) // 3], b"no archive at all", flipped):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"text{suffix} is not a whole {suffix} archive"):
            list(read_lines([path]))
    path.write_bytes(b"")
    with pytest.raises(InputError, match=f"text{suffix} is empty"):
        list(read_lines([path]))


def test_the_package_for_zst_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = _write(tmp_path / "text.zst", b"the cat\n")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match=r"needs the package zstandard. Fix: `pip install keras-nplm\[zstd\]`"):
        list(read_lines([Path(path)]))
