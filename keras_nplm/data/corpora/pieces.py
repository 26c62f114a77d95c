"""Large text cut into pieces of about 32 MB of whole lines, for parallel counting and encoding."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple, Protocol

from keras_nplm.data.worker_pool import count_processes, run_in_processes
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress
from keras_nplm.io.text import SPACES, decode_lines, is_compressed, open_text

PIECE_BYTES = 1 << 25  # of text
PARALLEL_BYTES = 1 << 26  # smaller texts are read in one process: starting more would take longer
PARALLEL_TFDS_BYTES = 1 << 28  # the same for TFDS sets
CHUNK_TOKENS = 1 << 18  # tokens, sentence ends included, that are counted or encoded at a time
_COMPRESSION = 4  # assumed ratio of text bytes to compressed bytes

Tokenize = Callable[[str], list[str]]


class Examples(NamedTuple):
    """A range of examples of a prepared TFDS set, in the order in which its files store them."""

    directory: str  # of the prepared set
    split: str
    feature: str
    start: int
    stop: int
    size: int  # bytes, estimated


@dataclasses.dataclass(frozen=True)
class Piece:
    """Whole lines of one file or several files, or of examples of a TFDS set.

    Args:
        ranges: (file, first byte, byte after the last) in order. None as the last byte: the end of the file.
        sentences: the range of sentences that belong to the piece: (first, after the last). Default: all.
        examples: the fields of `Examples`, if the text lies in a TFDS set. Default: it lies in files.
    """

    ranges: Sequence[tuple[str, int, int | None]] = ()
    sentences: tuple[int, int] | None = None
    examples: Sequence | None = None


class PieceRunner(Protocol):
    """Runs tasks on pieces in a different place than the processes of this machine; see `run_pieces_by`."""

    def open_scratch(self) -> AbstractContextManager[str]:
        """Yield a new directory that all workers see, and remove it at the end of the block."""

    def run(self, task: str, options: dict, items: Sequence[dict]) -> tuple[list[dict], list[dict]]:
        """Run a task as `run_task` does."""


_RUNNER: ContextVar[PieceRunner | None] = ContextVar("runner", default=None)


@contextlib.contextmanager
def run_pieces_by(runner: PieceRunner | None) -> Iterator[None]:
    """Let a runner count and encode the pieces of all text within the block. None: the processes of this machine."""
    token = _RUNNER.set(runner)
    try:
        yield
    finally:
        _RUNNER.reset(token)


def get_piece_runner() -> PieceRunner | None:
    """Return the runner of the enclosing `run_pieces_by`, or None."""
    return _RUNNER.get()


def cut_files(paths: Sequence[Path]) -> list[Piece]:
    """Cut files into pieces at line ends. A compressed file is not cut, and small files share a piece."""
    pieces, held, size = [], [], 0
    for path in paths:
        for start, stop in _cut_file(path):
            length = path.stat().st_size * _COMPRESSION if stop is None else stop - start
            if held and size + length > PIECE_BYTES:
                pieces.append(Piece(tuple(held)))
                held, size = [], 0
            held.append((str(path), start, stop))
            size += length
    return [*pieces, Piece(tuple(held))] if held else pieces


def _cut_file(path: Path) -> Iterator[tuple[int, int | None]]:
    """Cut the bytes of a file after the first line end that follows each `PIECE_BYTES`."""
    if is_compressed(path):
        yield 0, None
        return
    start, size = 0, path.stat().st_size
    with open_text(path) as file:
        while start + PIECE_BYTES < size:
            file.seek(start + PIECE_BYTES - 1)
            while (part := file.readline(1 << 16)) and not part.endswith(b"\n"):
                pass
            yield start, file.tell()
            start = file.tell()
    if start < size or not size:
        yield start, size


def read_piece(piece: Piece, tokenize: Tokenize) -> Iterator[list[str]]:
    """Tokenise the sentences of a piece: its lines that have tokens. Blank lines are not tokenised."""
    return filter(None, map(tokenize, read_sentence_lines(piece)))


def read_sentence_lines(piece: Piece) -> Iterator[str]:
    """Read the lines of a piece that are not blank: a no-break space is a word of the tokenizer `whitespace`."""
    if piece.examples:
        from keras_nplm.data.corpora.tfds_sets import read_examples  # imports TensorFlow

        lines = read_examples(Examples(*piece.examples))
    else:
        lines = itertools.chain.from_iterable(itertools.starmap(read_range, piece.ranges))
    lines = (line for line in lines if line.strip(SPACES))
    return itertools.islice(lines, *piece.sentences) if piece.sentences else lines


def read_range(path: str | Path, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """Read the lines of a file between two byte positions; see `decode_lines`."""
    with open_text(path) as file:
        if not start and not file.peek(1):
            raise InputError(f"{path} is empty. Fix: name a file that holds text, one sentence a line.")
        file.seek(start) if start else None
        yield from decode_lines(file, str(path), start, stop)


def chunk_sentences(sentences: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Group sentences into chunks of about 2**18 tokens, so that memory is bounded however long the sentences are."""
    chunk, size = [], 0
    for sentence in sentences:
        chunk.append(sentence)
        size += len(sentence) + 1
        if size >= CHUNK_TOKENS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def run_task(task: str, options: dict, items: Sequence[dict], title: str) -> tuple[list[dict], list[dict]]:
    """Run a task on pieces, in parallel processes if the text is large, with a progress bar.

    The pieces and their results do not depend on the number of processes. For a TFDS set TensorFlow starts in each
    process, which takes seconds, so that smaller ones are read in this process. Within `run_pieces_by` the runner does
    the work. Returns the results of the calls, in the order of the items, and those of `finish()`, one a process or, by
    a runner, one an item.
    """
    listed = [item | {"piece": dataclasses.asdict(item["piece"])} for item in items]
    if runner := get_piece_runner():
        return runner.run(task, options, listed)
    sizes = [_estimate_bytes(item["piece"]) for item in items]
    least = PARALLEL_TFDS_BYTES if any(item["piece"].examples for item in items) else PARALLEL_BYTES
    processes = count_processes() if sum(sizes) >= least else 1
    values, finished = [{}] * len(items), []
    with open_progress(title, sum(sizes), "B") as progress:
        for number, value in run_in_processes(task, options, listed, processes):
            if number is None:
                finished.append(value)
            else:
                values[number] = value
                progress.update(sizes[number])
    return values, finished


def _estimate_bytes(piece: Piece) -> int:
    """Estimate how many bytes of text a piece has."""
    if piece.examples:
        return Examples(*piece.examples).size
    return sum(
        Path(path).stat().st_size * _COMPRESSION if stop is None else stop - start for path, start, stop in piece.ranges
    )


class SentenceCounter:
    """A task for `run_in_processes`: count the sentences of a piece, its lines that are not blank."""

    def __call__(self, piece: dict) -> dict:
        return {"sentences": sum(1 for _ in read_sentence_lines(Piece(**piece)))}

    def finish(self) -> dict:
        return {}
