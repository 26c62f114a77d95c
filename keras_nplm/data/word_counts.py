"""Exact word counts in bounded memory: counts that exceed the memory limit go to disk in runs,
which are merged.
"""

import collections
import itertools
import json
import os
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.io.files import replace_file

if TYPE_CHECKING:
    from keras_nplm.data.corpora.chunks import Chunk

TYPES_IN_MEMORY = 1 << 20  # different words that a process holds: about 150 MB
_BATCH_CHARACTERS = 1 << 20  # of the lines whose tokens are counted at a time
T = TypeVar("T")
_PARTS = 64  # parts of a run: the same part of all runs is merged at a time


def batch_by_size(
    items: Iterable[T],
    most: int,
    measure: Callable[[Any], int] = len,
) -> Iterator[list[T]]:
    """Group items, such as sentences, into batches of about `most` tokens or characters and ends.

    Memory holds one batch.
    """
    batch: list[T] = []
    size = 0
    for item in items:
        batch.append(item)
        size += measure(item) + 1
        if size >= most:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


class WordCounts:
    """Word frequencies, counted in bounded memory."""

    def __init__(self, directory: str | os.PathLike):
        self.runs: list[Path] = []
        self._directory = Path(directory)
        self._counts: collections.Counter[str] = collections.Counter()

    def update(self, tokens: Iterable[str]) -> None:
        """Count tokens."""
        self._counts.update(tokens)
        if len(self._counts) > TYPES_IN_MEMORY:
            self.spill()

    def spill(self) -> None:
        """Write the counts in memory as a run: one line for each part of all words.

        A checksum selects the part.
        """
        if not self._counts:
            return
        parts: list[tuple[list[str], list[int]]] = [([], []) for _ in range(_PARTS)]
        for word, count in self._counts.items():
            words, counts = parts[zlib.crc32(word.encode("utf-8", "surrogatepass")) % _PARTS]
            words.append(word)
            counts.append(count)
        path = self._directory / f"{uuid.uuid4().hex}.counts"
        with replace_file(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(part) + "\n" for part in parts)
        self.runs.append(path)
        self._counts.clear()

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Iterate over (word, count), each word once, in no particular order."""
        if not self.runs:
            return iter(self._counts.items())
        self.spill()
        return merge_counts(self.runs)


def merge_counts(runs: Iterable[str | os.PathLike]) -> Iterator[tuple[str, int]]:
    """Merge runs: iterate over (word, sum of its counts), each word once.

    Memory holds one part of the words.
    """
    places = dict.fromkeys(runs, 0)
    for _ in range(_PARTS):
        sums: dict[str, int] = {}
        for run, place in places.items():
            with open(run, encoding="utf-8") as file:  # one at a time: a cluster writes thousands
                file.seek(place)
                for word, count in zip(*json.loads(file.readline()), strict=True):
                    sums[word] = sums.get(word, 0) + count
                places[run] = file.tell()
        yield from sums.items()


def count_chunk(tokenizer: Tokenizer, directory: str, chunk: "Chunk") -> list[Path]:
    """Count the words of a chunk of text, and return the runs, for `merge_counts`."""
    counts = WordCounts(directory)
    for lines in batch_by_size(chunk.lines(), _BATCH_CHARACTERS):
        counts.update(itertools.chain.from_iterable(map(tokenizer.split, lines)))
    counts.spill()
    return counts.runs
