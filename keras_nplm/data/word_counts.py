"""Exact word counts in bounded memory: counts that exceed the memory limit go to disk in runs, which are merged."""

import collections
import itertools
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from keras_nplm.data.corpora.pieces import Piece, chunk_sentences, read_piece
from keras_nplm.data.tokenizers import get_tokenizer
from keras_nplm.io.files import replace_file

TYPES_IN_MEMORY = 1 << 20  # different words that a process holds: about 150 MB
_PARTS = 64  # parts of a run: the same part of all runs is merged at a time


class WordCounts:
    """Word frequencies, counted in bounded memory."""

    def __init__(self, directory: str | os.PathLike, types_in_memory: int | None = None):
        self.runs: list[Path] = []
        self._directory = Path(directory)
        self._most = types_in_memory or TYPES_IN_MEMORY
        self._counts = collections.Counter()

    def update(self, tokens: Iterable[str]) -> None:
        """Count tokens."""
        self._counts.update(tokens)
        if len(self._counts) > self._most:
            self.spill()

    def spill(self) -> None:
        """Write the counts in memory as a run: one line for each part of all words. A checksum selects the part."""
        if not self._counts:
            return
        parts = [([], []) for _ in range(_PARTS)]
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
    """Merge runs: iterate over (word, sum of its counts), each word once, in no particular order.

    Memory holds one of 64 parts of the words at a time.
    """
    places = dict.fromkeys(runs, 0)
    for _ in range(_PARTS):
        sums = {}
        for run, place in places.items():
            with open(run, encoding="utf-8") as file:  # one at a time: a cluster writes thousands
                file.seek(place)
                for word, count in zip(*json.loads(file.readline()), strict=True):
                    sums[word] = sums.get(word, 0) + count
                places[run] = file.tell()
        yield from sums.items()


class PieceCounter:
    """A task for `run_in_processes`: count the words of pieces of text."""

    def __init__(self, tokenizer: str, directory: str):
        self._tokenize = get_tokenizer(tokenizer)
        self._counts = WordCounts(directory)

    def __call__(self, piece: dict) -> dict:
        self.add(Piece(**piece))
        return {}

    def add(self, piece: Piece) -> None:
        """Count the words of a piece."""
        for chunk in chunk_sentences(read_piece(piece, self._tokenize)):
            self._counts.update(itertools.chain.from_iterable(chunk))

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Iterate over (word, count) of all pieces, as `WordCounts.pairs`."""
        return self._counts.pairs()

    def finish(self) -> dict:
        self._counts.spill()
        return {"runs": list(map(str, self._counts.runs))}
