"""Parser of ARPA files as a stream: lines with their numbers, the header, and the sections of n-grams."""

import dataclasses
import gzip
import io
import itertools
import os
import re
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from keras_nplm.io.encodings import utf8_error
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file

GZIP_MAGIC = b"\x1f\x8b"
_MAX_EXPANSION = 100  # times the size of a gzipped file; n-grams expand about tenfold
_ALWAYS_ALLOWED = 1 << 20  # bytes
_BLOCK = 1 << 20  # bytes that are read at a time


@dataclasses.dataclass
class Section:
    """The n-grams of one order, from line `first_line` of the file on.

    Attributes:
        order: k.
        first_line: the line of the first n-gram.
        words: the words of unigrams. For higher orders there are ids instead.
        ids: the ids of the words of each n-gram, int32 [N, k].
        log10_probs: log10 of the probabilities, float64 [N].
        log10_backoffs: log10 of the back-off weights, 0 where the file has none, float64 [N].
    """

    order: int
    first_line: int
    words: list[str]
    ids: np.ndarray
    log10_probs: np.ndarray
    log10_backoffs: np.ndarray

    def set_ids(self, place: Mapping[str, int], lines: "ArpaLines") -> None:
        """Set the ids of unigrams, by the id of each word."""
        self.ids = np.array([place.get(word, -1) for word in self.words], np.int32).reshape(-1, 1)
        if (self.ids < 0).any():
            row = int(np.argmax(self.ids < 0))
            expected = f"words of the vocabulary, and {self.words[row]!r} is not one"
            raise lines.error(self.first_line + row, expected, self.words[row])


class ArpaLines:
    """The lines of an ARPA file, gzipped or not, read in order, a block of the file in memory at a time.

    Attributes:
        path: the file.
        number: the number of lines that were read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.number = 0
        check_is_file(path, or_pipe=True)
        try:
            self._file: io.BufferedReader | gzip.GzipFile = open(self.path, "rb")  # noqa: SIM115
            self._compressed = _CountingReader(self._file) if self._file.peek(2).startswith(GZIP_MAGIC) else None
        except OSError as error:
            raise self._cannot_read(error) from error
        if self._compressed is not None:
            self._file = gzip.GzipFile(fileobj=self._compressed)
        self._lines: list[str] = []  # of the block
        self._next = 0  # place of the next line in the block
        self._rest = b""  # the beginning of the line that goes on in the next block
        self._position = 0  # bytes of all lines before the next block
        self._is_at_end = False

    def __enter__(self) -> "ArpaLines":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        if self._compressed is not None:
            self._compressed.close()

    def _read_block(self) -> bool:
        """Read the next block of lines, and return whether there was one."""
        while not self._is_at_end:
            try:
                data = self._file.read(_BLOCK)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise InputError(
                    f"{self.path} must be a complete gzip file. Received: {error}. Fix: get the file again."
                ) from error
            except OSError as error:
                raise self._cannot_read(error) from error
            self._is_at_end = not data
            self._rest += data
            self._refuse_expansion()
            end = len(self._rest) if self._is_at_end else self._rest.rfind(b"\n") + 1
            if end:
                whole, self._rest = self._rest[:end], self._rest[end:]
                try:
                    text = whole.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise utf8_error(self.path, whole, self._position) from error
                self._position += end
                self._lines, self._next = text.removesuffix("\n").split("\n"), 0
                return True
        return False

    def _refuse_expansion(self) -> None:
        if self._compressed is None:
            return
        if self._position + len(self._rest) > max(_ALWAYS_ALLOWED, _MAX_EXPANSION * self._compressed.count):
            raise InputError(
                f"{self.path} must expand to at most {_MAX_EXPANSION} times its size. Received: a larger gzip file. "
                "Fix: if it is an ARPA file, unzip it first."
            )

    def _cannot_read(self, error: OSError) -> InputError:
        return InputError(f"Cannot read {self.path}: {error.strerror}. Fix: check its name and permissions.")

    def take(self, number: int) -> list[str]:
        """Read up to `number` lines, fewer at the end of a block; none at the end of the file."""
        if self._next == len(self._lines) and not self._read_block():
            return []
        lines = self._lines[self._next : self._next + number]
        self._next += len(lines)
        self.number += len(lines)
        return lines

    def skip_to(self, wanted: str) -> None:
        """Read up to the line `wanted`; the lines before it are comments."""
        while lines := self.take(1):
            if lines[0].strip() == wanted:
                return
        raise InputError(
            f"An ARPA file must have the line {wanted}. Received: {self.path} without it. Fix: name an ARPA file."
        )

    def peek(self) -> str:
        """Return the next line that is not empty, stripped; "" at the end of the file."""
        while True:
            if self._next == len(self._lines) and not self._read_block():
                return ""
            if line := self._lines[self._next].strip():
                return line
            self.take(1)

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.peek() != wanted:
            raise self.error(self.number + 1, f"the line {wanted}", self.peek())
        self.take(1)

    def error(self, number: int, expected: str, line: str = "") -> InputError:
        """Return the error for a malformed line; "" is the end of the file."""
        received = repr(line[:80]) if line else "the end of the file"
        return InputError(
            f"{self.path}, line {number}: expected {expected}. Received: {received}. "
            "Fix: get the file again, it was cut short or edited."
        )

    def refuse_repeated(self, section: Section, keys: np.ndarray, words: list[str]) -> None:
        """Refuse a section that lists an n-gram twice.

        Args:
            section: the section, with ids.
            keys: a different number for each different n-gram, int64 [N].
            words: the word of each id.
        """
        by_key = np.argsort(keys, kind="stable")
        repeated = by_key[1:][keys[by_key[1:]] == keys[by_key[:-1]]]
        if len(repeated):
            row = int(repeated.min())
            ngram = " ".join(words[i] for i in section.ids[row])
            raise self.error(section.first_line + row, "an n-gram that is not listed above", ngram)


class _CountingReader(io.RawIOBase):
    """A file that counts the bytes which were read from it."""

    def __init__(self, file: io.BufferedReader):
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        number = self._file.readinto(buffer)
        self.count += number
        return number

    def close(self) -> None:
        self._file.close()
        super().close()


def read_header(lines: ArpaLines) -> list[int]:
    r"""Read the number of n-grams of each order, under `\data\`."""
    lines.skip_to("\\data\\")
    numbers: list[int] = []
    while match := re.fullmatch(r"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})", lines.peek()):
        if int(match[1]) != len(numbers) + 1:
            raise lines.error(lines.number + 1, f"ngram {len(numbers) + 1}=NUMBER", lines.peek())
        lines.take(1)
        numbers.append(int(match[2]))
    if len(numbers) < 2:
        expected = "ngram 1=NUMBER and ngram 2=NUMBER at least, since a context has n-1 words"
        raise lines.error(lines.number + 1, expected, lines.peek())
    return numbers


def read_section(
    lines: ArpaLines, order: int, number: int, highest: int, place: Mapping[str, int] | None = None
) -> Section:
    r"""Read the n-grams under `\ORDER-grams:`, as many as the header says.

    Args:
        lines: the file.
        order: k.
        number: of n-grams.
        highest: the order of the model.
        place: the id of each word. Default: the words are kept instead, for unigrams only.
    """
    lines.expect(f"\\{order}-grams:")
    lines.peek()
    first_line = lines.number + 1
    words: list[str] = []
    ids = [np.zeros((0, order), np.int32)]
    log10_probs, log10_backoffs = [np.zeros(0)], [np.zeros(0)]
    parser = _SectionParser(lines, order, order == highest)
    left = number
    while left:
        first = lines.number + 1
        block = lines.take(left)
        if not block:
            raise lines.error(first, parser.expected)
        rows = parser.split(block, first)
        left -= len(block)
        log10_probs.append(parser.parse_log10_probs(block, rows, first))
        log10_backoffs.append(parser.parse_log10_backoffs(block, rows, first))
        if place is None:
            words += [row[1] for row in rows]
        else:
            ids.append(parser.look_up_words(block, rows, first, place))
    if lines.peek() and not lines.peek().startswith("\\"):
        expected = f"the end of the {number} {order}-grams that the header lists"
        raise lines.error(lines.number + 1, expected, lines.peek())
    probs, backoffs = np.concatenate(log10_probs), np.concatenate(log10_backoffs)
    return Section(order, first_line, words, np.concatenate(ids), probs, backoffs)


class _SectionParser:
    """Parser of the lines of n-grams of one order; errors name the line."""

    def __init__(self, lines: ArpaLines, order: int, is_highest: bool):
        self._lines = lines
        self._order = order
        self._widths = (order + 1,) if is_highest else (order + 1, order + 2)
        optional = "" if is_highest else " and perhaps log10 back-off"
        self.expected = f"log10 probability, {order} word{'s' * (order > 1)}{optional}"

    def split(self, block: list[str], first: int) -> list[list[str]]:
        """Split lines, of which the first has the number `first`, into fields."""
        rows = list(map(str.split, block))
        for i, row in enumerate(rows):
            if len(row) not in self._widths:
                raise self._lines.error(first + i, self.expected, block[i] or " ")
        return rows

    def parse_log10_probs(self, block: list[str], rows: list[list[str]], first: int) -> np.ndarray:
        """Parse the first field of each line."""
        values = self._parse_numbers(block, [row[0] for row in rows], first)
        if (values > 0).any():
            i = int(np.argmax(values > 0))
            raise self._lines.error(first + i, "a log10 probability of 0 or less", block[i])
        return values

    def parse_log10_backoffs(self, block: list[str], rows: list[list[str]], first: int) -> np.ndarray:
        """Parse the field after the words of each line; 0 where there is none."""
        width = self._order + 2
        return self._parse_numbers(block, [row[-1] if len(row) == width else "0" for row in rows], first)

    def _parse_numbers(self, block: list[str], column: list[str], first: int) -> np.ndarray:
        try:
            values = np.array(column, np.float64)
        except ValueError:
            values = np.array([_parse_number(text) for text in column])
        is_invalid = np.isnan(values) | np.isposinf(values)
        if is_invalid.any():
            i = int(np.argmax(is_invalid))
            raise self._lines.error(first + i, "a number", block[i])
        return values

    def look_up_words(
        self, block: list[str], rows: list[list[str]], first: int, place: Mapping[str, int]
    ) -> np.ndarray:
        """Return the ids of the words of each line, int32 [N, k]."""
        words = itertools.chain.from_iterable(row[1 : self._order + 1] for row in rows)
        ids = np.fromiter(map(place.get, words, itertools.repeat(-1)), np.int32).reshape(-1, self._order)
        if (ids < 0).any():
            row, column = np.argwhere(ids < 0)[0].tolist()
            word = rows[row][column + 1]
            raise self._lines.error(first + row, f"words of the vocabulary, and {word!r} is not one", block[row])
        return ids


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
