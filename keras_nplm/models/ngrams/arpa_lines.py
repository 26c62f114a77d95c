"""Parser of ARPA files: lines with their numbers, the header, and the sections of n-grams; errors name the line."""

import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_nplm.io.encodings import utf8_error
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file

GZIP_MAGIC = b"\x1f\x8b"
_MAX_EXPANSION = 100  # times the size of a gzipped file; n-grams expand about tenfold
_ALWAYS_ALLOWED = 1 << 20  # bytes


class Section:
    """The n-grams of one order, from `first_line` of the file on, with a list of fields for each line."""

    def __init__(
        self, order: int, first_line: int, rows: list[list[str]], log10_probs: np.ndarray, backoffs: np.ndarray
    ):
        self.order = order
        self.first_line = first_line
        self.rows = rows
        self.log10_probs = log10_probs
        self.log10_backoffs = backoffs

    def words(self) -> Iterator[list[str]]:
        """Yield the words of each n-gram."""
        return (row[1 : self.order + 1] for row in self.rows)


class ArpaLines:
    """The lines of an ARPA file, gzipped or not, read in order, and the errors that name a line."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        check_is_file(path, or_pipe=True)
        try:
            data = self.path.read_bytes()
            data = self._unzip(data) if data.startswith(GZIP_MAGIC) else data
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(path, data) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{path} must be a complete gzip file. Received: {error}. Fix: get the file again."
            ) from error
        except OSError as error:
            raise InputError(f"Cannot read {path}: {error.strerror}. Fix: check its name and permissions.") from error
        self.lines = text.split("\n")
        self.number = 0  # of lines read

    def _unzip(self, data: bytes) -> bytes:
        max_size = max(_ALWAYS_ALLOWED, _MAX_EXPANSION * len(data))
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unzipped = file.read(max_size + 1)
        if len(unzipped) > max_size:
            raise InputError(
                f"{self.path} must expand to at most {_MAX_EXPANSION} times its size. Received: a larger gzip file. "
                "Fix: if it is an ARPA file, unzip it first."
            )
        return unzipped

    def skip_to(self, wanted: str) -> None:
        """Read up to the line `wanted`; the lines before it are comments."""
        while self.number < len(self.lines):
            self.number += 1
            if self.lines[self.number - 1].strip() == wanted:
                return
        raise InputError(
            f"An ARPA file must have the line {wanted}. Received: {self.path} without it. Fix: name an ARPA file."
        )

    def peek(self) -> str:
        """Return the next line that is not empty, stripped; "" at the end of the file."""
        while self.number < len(self.lines) and not self.lines[self.number].strip():
            self.number += 1
        return self.lines[self.number].strip() if self.number < len(self.lines) else ""

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.peek() != wanted:
            raise self.error(self.number + 1, f"the line {wanted}")
        self.number += 1

    def error(self, number: int, expected: str) -> InputError:
        """Return the error for a malformed line."""
        line = self.lines[number - 1][:80] if number <= len(self.lines) else ""
        received = repr(line) if line or number < len(self.lines) else "the end of the file"
        return InputError(
            f"{self.path}, line {number}: expected {expected}. Received: {received}. "
            "Fix: get the file again, it was cut short or edited."
        )

    def look_up_words(self, section: Section, place: dict[str, int]) -> np.ndarray:
        """Return the ids of a section's words, int64 [N, k], from the place of each word."""
        words = itertools.chain.from_iterable(section.words())
        ids = np.fromiter(map(place.get, words, itertools.repeat(-1)), np.int64).reshape(-1, section.order)
        if (ids < 0).any():
            row, column = np.argwhere(ids < 0)[0]
            word = section.rows[row][column + 1]
            raise self.error(section.first_line + int(row), f"words of the vocabulary, and {word!r} is not one")
        return ids

    def refuse_repeated(self, section: Section, keys: np.ndarray) -> None:
        """Refuse a section that lists an n-gram twice; `keys`, int64 [N], has a different number for each n-gram."""
        by_key = np.argsort(keys, kind="stable")
        repeated = by_key[1:][keys[by_key[1:]] == keys[by_key[:-1]]]
        if len(repeated):
            raise self.error(section.first_line + int(repeated.min()), "an n-gram that is not listed above")


def read_header(lines: ArpaLines) -> list[int]:
    r"""Read the number of n-grams of each order, under `\data\`."""
    lines.skip_to("\\data\\")
    numbers = []
    while match := re.fullmatch(r"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})", lines.peek()):
        lines.number += 1
        if int(match[1]) != len(numbers) + 1:
            raise lines.error(lines.number, f"ngram {len(numbers) + 1}=NUMBER")
        numbers.append(int(match[2]))
    if len(numbers) < 2:
        raise lines.error(lines.number + 1, "ngram 1=NUMBER and ngram 2=NUMBER at least, since a context has n-1 words")
    return numbers


def read_section(lines: ArpaLines, order: int, number: int, highest: int) -> Section:
    r"""Read the n-grams under `\ORDER-grams:`, as many as the header says; `highest` is the order of the model."""
    lines.expect(f"\\{order}-grams:")
    lines.peek()
    first = lines.number
    rows = list(map(str.split, lines.lines[first : first + number]))
    lines.number = first + len(rows)
    widths = np.array([len(row) for row in rows])
    allowed = (order + 1,) if order == highest else (order + 1, order + 2)
    optional = "" if order == highest else " and perhaps log10 back-off"
    expected = f"log10 probability, {order} word{'s' * (order > 1)}{optional}"
    if number and not np.isin(widths, allowed).all():
        raise lines.error(first + int(np.argmin(np.isin(widths, allowed))) + 1, expected)
    if len(rows) < number:
        raise lines.error(len(lines.lines) + 1, expected)
    if lines.peek() and not lines.peek().startswith("\\"):
        raise lines.error(lines.number + 1, f"the end of the {number} {order}-grams that the header lists")
    log10_probs = _parse_numbers(lines, first, [row[0] for row in rows])
    log10_backoffs = _parse_numbers(lines, first, [row[-1] if len(row) == order + 2 else "0" for row in rows])
    if (log10_probs > 0).any():
        raise lines.error(first + int(np.argmax(log10_probs > 0)) + 1, "a log10 probability of 0 or less")
    return Section(order, first + 1, rows, log10_probs, log10_backoffs)


def _parse_numbers(lines: ArpaLines, first: int, column: list[str]) -> np.ndarray:
    """Parse a column of numbers; its first row is in the line after `first`."""
    try:
        values = np.array(column, np.float64)
    except ValueError:
        values = np.array([_parse_number(text) for text in column])
    is_invalid = np.isnan(values) | np.isposinf(values)
    if is_invalid.any():
        raise lines.error(first + int(np.argmax(is_invalid)) + 1, "a number")
    return values


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
