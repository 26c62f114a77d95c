"""Parser of ARPA files as a stream: lines with their numbers, the header, and the sections of n-grams."""

import dataclasses
import itertools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import MAX_LINE_BYTES, SPACES, decode, open_text, split_fields

_BLOCK = 1 << 20  # bytes that are read at a time


@dataclasses.dataclass
class Section:
    """The n-grams of one order.

    Attributes:
        order: k.
        numbers: the line of each n-gram, int64 [N].
        words: the words of unigrams. For higher orders there are ids instead.
        ids: the ids of the words of each n-gram, int32 [N, k].
        log10_probs: log10 of the probabilities, float64 [N].
        log10_backoffs: log10 of the back-off weights, 0 where the file has none, float64 [N].
    """

    order: int
    numbers: np.ndarray
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
            raise lines.error(self.numbers[row], expected, self.words[row])


class ArpaLines:
    """The lines of an ARPA file, compressed or not, read in order, a block of the file in memory at a time.

    Attributes:
        path: the file.
        number: the number of lines that were read.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.number = 0
        self._open = open_text(self.path)
        self._lines: list[str] = []  # of the block
        self._next = 0  # place of the next line in the block
        self._rest = b""  # the beginning of the line that goes on in the next block
        self._position = 0  # bytes of all lines before the next block
        self._is_at_end = False

    def __enter__(self) -> "ArpaLines":
        self._file = self._open.__enter__()
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._open.__exit__(*error)

    def _read_block(self) -> bool:
        """Read the next block of lines, and return whether there was one."""
        while not self._is_at_end:
            data = self._file.read(_BLOCK)
            self._is_at_end = not data
            self._rest += data
            if len(self._rest) > MAX_LINE_BYTES + _BLOCK:
                raise self.error(self.number + 1, f"a line of at most {MAX_LINE_BYTES:,} bytes", "a longer line")
            end = len(self._rest) if self._is_at_end else self._rest.rfind(b"\n") + 1
            if end:
                whole, self._rest = self._rest[:end], self._rest[end:]
                text = decode(self.path, whole, self._position)
                self._position += end
                self._lines, self._next = text.removesuffix("\n").split("\n"), 0
                return True
        return False

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
            if lines[0].strip(SPACES) == wanted:
                return
        raise InputError(
            f"An ARPA file must have the line {wanted}. Received: {self.path} without it. Fix: name an ARPA file."
        )

    def peek(self) -> str:
        """Return the next line that is not blank, stripped; "" at the end of the file."""
        while self._next < len(self._lines) or self._read_block():
            for line in itertools.islice(self._lines, self._next, None):
                if line := line.strip(SPACES):
                    return line
                self._next, self.number = self._next + 1, self.number + 1
        return ""

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.peek() != wanted:
            raise self.error(self.number + 1, f"the line {wanted}", self.peek())
        self.take(1)

    def error(self, number: int, expected: str, line: str = "") -> InputError:
        """Return the error for a malformed line; "" is the end of the file."""
        received = repr(line[:80]) if line else "the end of the file"
        fix = "correct the line, or get the file again" if line else "get the file again, it was cut short"
        return InputError(f"{self.path}, line {number}: expected {expected}. Received: {received}. Fix: {fix}.")

    def refuse_repeated(self, section: Section, keys: np.ndarray, words: list[str]) -> None:
        """Refuse a section that lists an n-gram twice."""
        by_key = np.argsort(keys, kind="stable")
        repeated = by_key[1:][keys[by_key[1:]] == keys[by_key[:-1]]]
        if len(repeated):
            row = int(repeated.min())
            ngram = " ".join(words[i] for i in section.ids[row])
            raise self.error(section.numbers[row], "an n-gram that is not listed above", ngram)


def read_header(lines: ArpaLines) -> list[int]:
    r"""Read the number of n-grams of each order, under `\data\`."""
    lines.skip_to("\\data\\")
    numbers: list[int] = []
    while match := re.fullmatch(r"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})", lines.peek()):
        if int(match[1]) != len(numbers) + 1:
            raise lines.error(lines.number + 1, f"ngram {len(numbers) + 1}=NUMBER", lines.peek())
        lines.take(1)
        numbers.append(int(match[2]))
    if not numbers:
        raise lines.error(lines.number + 1, "ngram 1=NUMBER", lines.peek())
    return numbers


def read_section(
    lines: ArpaLines, order: int, number: int, highest: int, place: Mapping[str, int] | None = None
) -> Section:
    r"""Read the n-grams under `\ORDER-grams:`, as many as the header says."""
    lines.expect(f"\\{order}-grams:")
    words: list[str] = []
    numbers, ids = [np.zeros(0, np.int64)], [np.zeros((0, order), np.int32)]
    log10_probs, log10_backoffs = [np.zeros(0)], [np.zeros(0)]
    parser = _SectionParser(lines, order, order == highest)
    left = number
    while left:
        first = lines.number + 1
        block = lines.take(left)
        if not block:
            raise lines.error(first, parser.expected)
        part = parser.parse(block, first)
        left -= len(part.numbers)
        numbers.append(part.numbers)
        log10_probs.append(part.log10_probs)
        log10_backoffs.append(part.log10_backoffs)
        if place is None:
            words += [row[1] for row in part.rows]
        else:
            ids.append(parser.look_up_words(part, place))
    if lines.peek() and not lines.peek().startswith("\\"):
        expected = f"the end of the {number} {order}-grams that the header lists"
        raise lines.error(lines.number + 1, expected, lines.peek())
    probs, backoffs = np.concatenate(log10_probs), np.concatenate(log10_backoffs)
    return Section(order, np.concatenate(numbers), words, np.concatenate(ids), probs, backoffs)


class _Part(NamedTuple):
    """Some lines of n-grams: their numbers and fields, and the numbers among their fields."""

    numbers: np.ndarray
    rows: list[list[str]]
    log10_probs: np.ndarray
    log10_backoffs: np.ndarray


class _SectionParser:
    """Parser of the lines of n-grams of one order; errors name the line."""

    def __init__(self, lines: ArpaLines, order: int, is_highest: bool):
        self._lines = lines
        self._order = order
        self._is_highest = is_highest
        optional = "" if is_highest else " and perhaps log10 back-off"
        self.expected = f"log10 probability, {order} word{'s' * (order > 1)}{optional}"

    def parse(self, block: list[str], first: int) -> _Part:
        """Parse lines, of which the first has the number `first`. Blank lines are skipped."""
        rows, width = list(map(split_fields, block)), self._order + 2
        numbers = np.arange(first, first + len(rows))
        if not all(rows):
            numbers = numbers[[bool(row) for row in rows]]
            rows = [row for row in rows if row]
        for number, row in zip(numbers, rows, strict=True):
            if len(row) not in (width - 1, width):
                raise self._lines.error(number, self.expected, " ".join(row))
        log10_probs = self._parse_numbers(numbers, rows, [row[0] for row in rows])
        backoffs = self._parse_numbers(numbers, rows, [row[-1] if len(row) == width else "0" for row in rows])
        self._refuse(log10_probs > 0, numbers, rows, "a log10 probability of 0 or less")
        if self._is_highest:
            self._refuse(backoffs != 0, numbers, rows, f"no back-off, since {self._order} is the highest order")
        return _Part(numbers, rows, log10_probs, backoffs)

    def _refuse(self, is_wrong: np.ndarray, numbers: np.ndarray, rows: list[list[str]], expected: str) -> None:
        if is_wrong.any():
            i = int(np.argmax(is_wrong))
            raise self._lines.error(numbers[i], expected, "\t".join(rows[i]))

    def _parse_numbers(self, numbers: np.ndarray, rows: list[list[str]], column: list[str]) -> np.ndarray:
        try:
            values = np.array(column, np.float64)
        except ValueError:
            values = np.array([_parse_number(text) for text in column])
        self._refuse(np.isnan(values) | np.isposinf(values), numbers, rows, "a number")
        return values

    def look_up_words(self, part: _Part, place: Mapping[str, int]) -> np.ndarray:
        """Return the ids of the words of each line, int32 [N, k]."""
        words = itertools.chain.from_iterable(row[1 : self._order + 1] for row in part.rows)
        ids = np.fromiter(map(place.get, words, itertools.repeat(-1)), np.int32).reshape(-1, self._order)
        if (ids < 0).any():
            row, column = np.argwhere(ids < 0)[0].tolist()
            expected = f"words of the vocabulary, and {part.rows[row][column + 1]!r} is not one"
            self._refuse((ids < 0).any(axis=1), part.numbers, part.rows, expected)
        return ids


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
