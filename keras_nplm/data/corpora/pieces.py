"""Large text files cut into pieces of about 32 MB of whole lines, for parallel counting and encoding."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora.compressed import decode_lines, is_compressed, open_text
from keras_nplm.data.worker_pool import count_processes, run_in_processes
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import open_progress

PIECE_BYTES = 1 << 25  # of text
PARALLEL_BYTES = 1 << 26  # smaller texts are read in one process: starting more would take longer
CHUNK_TOKENS = 1 << 18  # tokens, sentence ends included, that are counted or encoded at a time
_COMPRESSION = 4  # assumed ratio of text bytes to compressed bytes

Tokenize = Callable[[str], list[str]]


@dataclasses.dataclass(frozen=True)
class Piece:
    """Whole lines of one file or several files.

    Args:
        ranges: (file, first byte, byte after the last) in order. None as the last byte: the end of the file.
        sentences: the range of sentences that belong to the piece: (first, after the last). Default: all.
    """

    ranges: Sequence[tuple[str, int, int | None]]
    sentences: tuple[int, int] | None = None


def cut_files(paths: Sequence[Path]) -> list[Piece]:
    """Cut files into pieces at line ends. A compressed file is not cut, and small files share a piece.

    Raises:
        InputError: a file cannot be read.
    """
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
    """Tokenise the sentences of a piece: its lines that are not blank. Other lines are not tokenised.

    Raises:
        InputError: a file is absent, damaged, empty, or not UTF-8.
    """
    return map(tokenize, read_sentence_lines(piece))


def read_sentence_lines(piece: Piece) -> Iterator[str]:
    """Read the lines of a piece that are not blank. Every tokenizer finds a token in each of them."""
    lines = itertools.chain.from_iterable(itertools.starmap(read_range, piece.ranges))
    lines = filter(str.strip, lines)
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

    Args:
        task: `"module:Class"`; see `keras_nplm.data.worker_pool.run_in_processes`.
        options: the arguments of the class.
        items: the arguments of each call, with a `Piece` as `piece`.
        title: the title of the progress bar.

    Returns:
        the results of the calls, in the order of the items, and the results of `finish()`, one a process.
    """
    sizes = [_estimate_bytes(item["piece"]) for item in items]
    processes = count_processes() if sum(sizes) >= PARALLEL_BYTES else 1
    values, finished = [{}] * len(items), []
    listed = [item | {"piece": dataclasses.asdict(item["piece"])} for item in items]
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
    return sum(
        Path(path).stat().st_size * _COMPRESSION if stop is None else stop - start for path, start, stop in piece.ranges
    )


class SentenceCounter:
    """A task for `run_in_processes`: count the sentences of a piece, its lines that are not blank."""

    def __call__(self, piece: dict) -> dict:
        return {"sentences": sum(1 for _ in read_sentence_lines(Piece(**piece)))}

    def finish(self) -> dict:
        return {}
