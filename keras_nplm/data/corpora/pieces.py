"""Text files in pieces of about 32 MB, each of whole lines: what one process reads at a time."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from keras_nplm.data.corpora.compressed import decode_lines, is_compressed, open_text
from keras_nplm.data.worker_pool import count_processes, run_in_processes
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import Progress

PIECE_BYTES = 1 << 25  # of text
PARALLEL_BYTES = 1 << 26  # less text than this is done sooner than other processes start
_COMPRESSION = 4  # how many bytes of text one of a compressed file is taken for

Tokenize = Callable[[str], list[str]]


@dataclasses.dataclass(frozen=True)
class Piece:
    """Whole lines of one file or several.

    Args:
        ranges: (file, first byte, byte after the last) in their order; None as the last: to the end of the file.
        sentences: if only some of the sentences there belong to it: the number of the first, and of the one after the
            last.
    """

    ranges: Sequence[tuple[str, int, int | None]]
    sentences: tuple[int, int] | None = None


def cut_files(paths: Sequence[Path]) -> list[Piece]:
    """Cut files into pieces at line ends; a compressed file is not cut, and small files share a piece.

    Raises:
        InputError: a file cannot be read.
    """
    pieces, held, size = [], [], 0
    for path in paths:
        for start, stop in _ranges(path):
            length = path.stat().st_size * _COMPRESSION if stop is None else stop - start
            if held and size + length > PIECE_BYTES:
                pieces.append(Piece(tuple(held)))
                held, size = [], 0
            held.append((str(path), start, stop))
            size += length
    return [*pieces, Piece(tuple(held))] if held else pieces


def _ranges(path: Path) -> Iterator[tuple[int, int | None]]:
    """The bytes of a file, from and to, cut after the first line end that follows each `PIECE_BYTES`."""
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
    """The tokens of each line of a piece that has any.

    Raises:
        InputError: a file is absent, damaged, empty, or not UTF-8.
    """
    lines = itertools.chain.from_iterable(itertools.starmap(read_range, piece.ranges))
    sentences = filter(None, map(tokenize, lines))
    return itertools.islice(sentences, *piece.sentences) if piece.sentences else sentences


def read_range(path: str | Path, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """The lines that stand in some bytes of a file; see `decode_lines`."""
    with open_text(path) as file:
        if not start and not file.peek(1):
            raise InputError(f"{path} is empty: name a file that holds text, one sentence a line.")
        file.seek(start) if start else None
        yield from decode_lines(file if stop is None else _until(file, stop - start), str(path), start)


def _until(file, length: int) -> Iterator[bytes]:
    for line in file:
        yield line[:length]
        length -= len(line)
        if length <= 0:
            return


def run_task(task: str, options: dict, items: Sequence[dict], title: str) -> tuple[list[dict], list[dict]]:
    """Do a task for each of some pieces, in several processes where the text is large, and show how far it has got.

    Args:
        task: see `keras_nplm.data.worker_pool.run_in_processes`; what a call returns has at least `tokens`.
        options: what its class is made with.
        items: each with a `piece`, a `Piece`, beside other entries.
        title: what is being done.

    Returns:
        what the calls returned, in the order of the items; what `finish()` of each process returned.
    """
    sizes = [_size(item["piece"]) for item in items]
    processes = count_processes() if sum(sizes) >= PARALLEL_BYTES else 1
    values, finished = [{}] * len(items), []
    progress = Progress(title, sum(sizes))
    listed = [item | {"piece": dataclasses.asdict(item["piece"])} for item in items]
    for number, value in run_in_processes(task, options, listed, processes):
        if number is None:
            finished.append(value)
        else:
            values[number] = value
            progress.add(value["tokens"], sizes[number])
    progress.close()
    return values, finished


def _size(piece: Piece) -> int:
    """About how many bytes of text a piece has."""
    return sum(
        Path(path).stat().st_size * _COMPRESSION if stop is None else stop - start for path, start, stop in piece.ranges
    )


def describe_pieces(pieces: Sequence[Piece]) -> list:
    """What tells whether the text of some pieces has changed: with each range, the file's size and time of change."""
    seen = {path: Path(path).stat() for piece in pieces for path, _, _ in piece.ranges}
    return [
        [[path, start, stop, seen[path].st_size, seen[path].st_mtime_ns] for path, start, stop in piece.ranges]
        + [list(piece.sentences or [])]
        for piece in pieces
    ]


class SentenceCounter:
    """A task for `run_in_processes`: the number of sentences of a piece."""

    def __call__(self, piece: dict) -> dict:
        # a line has a token, by whatever tokenizer, if it has anything but white space
        lines = itertools.chain.from_iterable(itertools.starmap(read_range, piece["ranges"]))
        sentences = tokens = 0
        for line in lines:
            sentences += bool(line.strip())
            tokens += line.count(" ") + 1  # about: for the progress alone
        return {"sentences": sentences, "tokens": tokens}

    def finish(self) -> dict:
        return {}
