"""Text files, shards and several processes, as the tests of this directory need them."""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import keras_nplm.data.corpora.chunks as chunks
from keras_nplm.data.shards import ShardedIds


@pytest.fixture(scope="session")
def write_odd_texts() -> Callable[[Path], str]:
    """A function that writes small files, of CR LF, blank lines, wide characters or gzip, and
    returns their glob.
    """
    texts = {
        "a.txt": "\ufeffThe cat sat.\r\n\r\nthe end".encode(),
        "b.txt": "\n\n猫猫猫猫 猫猫猫\n\n été été\n".encode(),
        "c.txt.gz": gzip.compress(b"the compressed cat\nsat\n" * 9),
        "d.txt": b"huge " * 100 + b"\nsmall\n",
        "e.txt": b"y <unk>\nx\n" * 9,
    }

    def write(directory: Path) -> str:
        for name, text in texts.items():
            (directory / name).write_bytes(text)
        return str(directory / "*.txt*")

    return write


@pytest.fixture(scope="session")
def write_shards() -> Callable[[Path, np.ndarray, Sequence[int]], ShardedIds]:
    """A function that writes ids as shards, cut at the given places."""

    def write(directory: Path, ids: np.ndarray, cuts: Sequence[int] = ()) -> ShardedIds:
        parts = np.split(ids.astype("<i4"), cuts)
        paths = [directory / f"{number:05d}.ids" for number in range(len(parts))]
        for path, part in zip(paths, parts, strict=True):
            part.tofile(path)
        return ShardedIds(paths, vocabulary_size=1 << 20)

    return write


@pytest.fixture(scope="session")
def list_ngrams() -> Callable[[Sequence[int], int, str], list[tuple[int, ...]]]:
    """A function that lists the n-grams of a text one by one in plain Python."""

    def enumerate_ngrams(ids: Sequence[int], order: int, boundary: str) -> list[tuple[int, ...]]:
        fill = [0 if boundary == "stream" else 2] * (order - 1)
        ngrams = []
        context = fill
        for target in map(int, ids):
            if target == 2:  # a document begins
                context = fill
            elif boundary != "stream" or target != 3:
                ngrams.append((*context, target))
                context = fill if (boundary, target) == ("sentence", 3) else [*context[1:], target]
        return ngrams

    return enumerate_ngrams


@pytest.fixture
def many_processes(monkeypatch):
    """Text of any size is cut small and read by two processes."""
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 16)
    monkeypatch.setattr(chunks, "PARALLEL_BYTES", 0)

    def count_two() -> int:
        return 2

    monkeypatch.setattr(chunks, "count_processes", count_two)
