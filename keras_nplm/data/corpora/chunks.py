"""Large text cut into chunks of about 32 MB of whole lines, for parallel counting and encoding."""

import abc
import contextlib
import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from keras_nplm.data.corpora.data_files import has_records_in_lines, read_field, refuse_data
from keras_nplm.data.processes import count_processes, map_in_processes
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.io.remote import display_url
from keras_nplm.io.text import SPACES, decode_lines, is_compressed, open_text

CHUNK_BYTES = 1 << 25  # of text
PARALLEL_BYTES = 1 << 26  # smaller texts are read in one process: starting more would take longer
# the same for TFDS sets: TensorFlow starts in each process, which takes seconds
PARALLEL_TFDS_BYTES = 1 << 28
_COMPRESSION = 4  # assumed ratio of text bytes to compressed bytes

# (file, first byte, byte after the last); None: the end of the file
Range = tuple[str, int, int | None]


class Chunk(abc.ABC):
    """A part of a text that reads itself in any process: whole lines.

    A blank one, `""`, ends a document.
    """

    ranges: Sequence[Range] = ()  # of files

    @abc.abstractmethod
    def estimate_size(self) -> int: ...  # bytes of text

    @abc.abstractmethod
    def lines(self) -> Iterator[str]: ...

    @abc.abstractmethod
    def describe(self) -> list: ...  # the place of the text, as JSON values

    @abc.abstractmethod
    def with_paths(self, change: Callable[[str], str]) -> "Chunk": ...  # for a different machine


@dataclasses.dataclass(frozen=True)
class TextChunk(Chunk):
    """Whole lines of one file or several files, or of a field of data files."""

    ranges: Sequence[Range] = ()
    field: str | None = None  # None: of text files
    sentences: tuple[int, int] | None = None  # lines with text: (first, after the last); None: all
    places: tuple[float, float] | None = None  # lines with `place_line` in [low, high); None: all

    def estimate_size(self) -> int:
        return sum(_estimate_bytes(*place) for place in self.ranges)

    def lines(self) -> Iterator[str]:
        lines = self._read_sentences()
        if self.places is None:
            return lines
        low, high = self.places
        return (line for line in lines if line and low <= place_line(line) < high)

    def _read_sentences(self) -> Iterator[str]:
        (first, stop), number = self.sentences or (0, None), 0
        texts = (read_range(*place, field=self.field) for place in self.ranges)
        for line in itertools.chain.from_iterable(texts):
            if number == stop:
                return
            is_blank = not line.strip(SPACES)  # a no-break space is a word of `whitespace`
            if number >= first:
                yield "" if is_blank else line
            number += not is_blank

    def describe(self) -> list:
        return [
            *([display_url(path), *place] for path, *place in self.ranges),
            list(self.sentences or []),
            *([list(self.places)] if self.places else []),
            *([self.field] if self.field else []),
        ]

    def with_paths(self, change: Callable[[str], str]) -> "TextChunk":
        ranges = tuple((change(path), start, stop) for path, start, stop in self.ranges)
        return dataclasses.replace(self, ranges=ranges)


def place_line(line: str) -> float:
    """Return a number in [0, 1) that looks random, and is the same for equal lines."""
    digest = hashlib.blake2b(line.encode(), digest_size=6).digest()
    return int.from_bytes(digest) / (1 << 48)


def cut_files(paths: Sequence[Path], field: str | None = None) -> list[TextChunk]:
    """Cut files into chunks at line ends.

    Compressed files, CSV and Parquet are not cut, and small files share a chunk.
    """
    chunks: list[TextChunk] = []
    held: list[Range] = []
    size = 0
    for path in paths:
        for start, stop in _cut_file(path, field):
            length = _estimate_bytes(path, start, stop)
            if held and size + length > CHUNK_BYTES:
                chunks.append(TextChunk(tuple(held), field))
                held = []
                size = 0
            held.append((str(path), start, stop))
            size += length
    return [*chunks, TextChunk(tuple(held), field)] if held else chunks


def _estimate_bytes(path: str | Path, start: int, stop: int | None) -> int:
    return Path(path).stat().st_size * _COMPRESSION if stop is None else stop - start


def _cut_file(path: Path, field: str | None) -> Iterator[tuple[int, int | None]]:
    """Cut the bytes of a file after the first line end that follows each `CHUNK_BYTES`."""
    if is_compressed(path):
        yield 0, None
        return
    start = 0
    size = path.stat().st_size
    with open_text(path) as file:
        if not has_records_in_lines(file, str(path), field):
            yield 0, size
            return
        while start + CHUNK_BYTES < size:
            file.seek(start + CHUNK_BYTES - 1)
            while (part := file.readline(1 << 16)) and not part.endswith(b"\n"):
                pass
            yield start, file.tell()
            start = file.tell()
    if start < size or not size:
        yield start, size


def read_range(
    path: str | Path, start: int = 0, stop: int | None = None, *, field: str | None = None
) -> Iterator[str]:
    """Read the lines of a text file, or of a field of a data file, between two byte positions; see
    `decode_lines` and `read_field`.
    """
    with open_text(path) as file:
        if not start and not file.peek(1):
            raise InputError(
                f"{path} is empty. Fix: name a file that holds text, one sentence a line."
            )
        if start:
            file.seek(start)
        yield from read_open_file(file, str(path), start, stop, field)


def read_open_file(
    file: BinaryIO, path: str, start: int = 0, stop: int | None = None, field: str | None = None
) -> Iterator[str]:
    """Read an open file as `read_range`."""
    if field is not None:
        return read_field(file, path, field, start, stop)
    lines = decode_lines(file, path, start, stop)
    return lines if start else refuse_data(file, lines, path)


# of the enclosing `run_chunks_by`
CHUNK_RUNNER: ContextVar[Any] = ContextVar("runner", default=None)


@contextlib.contextmanager
def run_chunks_by(runner: Any) -> Iterator[None]:
    """Let a runner, such as `BeamRunner`, count and encode the chunks of all text.

    None: processes of this machine.
    """
    token = CHUNK_RUNNER.set(runner)
    try:
        yield
    finally:
        CHUNK_RUNNER.reset(token)


def map_chunks(function: Callable, items: Sequence[tuple], title: str) -> list:
    """Call a function with the values of each item (chunk, …), and return the results in order.

    By the runner of `run_chunks_by`, or in parallel processes if the text is large.
    """
    if runner := CHUNK_RUNNER.get():
        return runner.map(function, items)
    sizes = [chunk.estimate_size() for chunk, *_ in items]
    least = PARALLEL_BYTES if all(chunk.ranges for chunk, *_ in items) else PARALLEL_TFDS_BYTES
    processes = count_processes() if sum(sizes) >= least else 1
    values = []
    with (
        open_progress(title, sum(sizes), "B") as progress,
        contextlib.closing(map_in_processes(function, items, processes)) as results,
    ):
        for size, value in zip(sizes, results, strict=True):
            values.append(value)
            progress.update(size)
    return values


def count_sentences(chunk: Chunk) -> int:
    """Count the lines of a chunk that are not blank."""
    return sum(map(bool, chunk.lines()))
