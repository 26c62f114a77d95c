"""Plain text files as a corpus: a line is a sentence."""

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_nplm.errors import InputError
from keras_nplm.files import check_is_file, not_utf8

Tokenize = Callable[[str], list[str]]


def expand(patterns: Sequence[str]) -> list[Path]:
    """The files that names and globs stand for, each once, globs in name order.

    Raises:
        InputError: a name or pattern stands for no file.
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        found = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
        found = [path for path in map(Path, found) if path.is_file()]
        if not found:
            raise InputError(f"No such text file: {pattern}. Check the name (or the pattern) and the directory.")
        paths.update(dict.fromkeys(found))
    return list(paths)


def read_lines(paths: Sequence[Path]) -> Iterator[str]:
    """The lines of UTF-8 files, as `decode_lines` has them.

    Raises:
        InputError: a file is absent, holds no text, or is not UTF-8.
    """
    for path in paths:
        check_is_file(path, or_pipe=True)
        try:
            with open(path, "rb") as file:
                if not file.peek(1):
                    raise InputError(f"{path} is empty: name a file that holds text, one sentence a line.")
                yield from decode_lines(file, str(path))
        except OSError as error:
            raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error


def decode_lines(file: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of an open binary file without their ends (LF or CR LF), a byte order mark at its start left out.

    Args:
        file: lines of bytes.
        name: what an error calls it.

    Raises:
        InputError: it is not UTF-8 text.
    """
    offset = 0
    for line in file:
        try:
            text = line.decode("utf-8-sig" if offset == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(name, offset + error.start) from error
        if "\0" in text:  # no text has it, and UTF-16 without its mark is full of it
            raise not_utf8(name, offset + line.index(b"\0"))
        yield text.rstrip("\r\n")
        offset += len(line)


def read_sentences(paths: Sequence[Path], tokenize: Tokenize) -> Iterator[list[str]]:
    """The tokens of each line that has any."""
    return filter(None, map(tokenize, read_lines(paths)))


def split_by_lines(
    paths: Sequence[Path], fractions: tuple[float, float, float], tokenize: Tokenize
) -> dict[str, Callable[[], Iterator[list[str]]]]:
    """Split files into runs of lines: the first for training, then validation, then test.

    Args:
        paths: the files, read one after the other.
        fractions: the shares of the lines; three positive numbers that sum to 1.
        tokenize: splits a line into tokens.

    Returns:
        for each split a function that iterates over its sentences anew.

    Raises:
        InputError: the fractions do not sum to 1, or there are too few lines to give each split one.
    """
    if not (all(fraction > 0 for fraction in fractions) and abs(sum(fractions) - 1) <= 1e-6):
        raise InputError(f"`fractions` must be three positive numbers that sum to 1. Received: {fractions}.")
    sentences = sum(1 for _ in read_sentences(paths, tokenize))
    first, second = round(sentences * fractions[0]), round(sentences * (fractions[0] + fractions[1]))
    if not 0 < first < second < sentences:
        raise InputError(
            f"{', '.join(map(str, paths))}: {sentences} lines of text are too few to split by {fractions}: "
            "add text, or name --validation and --test files."
        )

    def between(start: int, stop: int) -> Callable[[], Iterator[list[str]]]:
        return lambda: (sentence for i, sentence in enumerate(read_sentences(paths, tokenize)) if start <= i < stop)

    return {"train": between(0, first), "validation": between(first, second), "test": between(second, sentences)}
