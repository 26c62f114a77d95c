"""Parser of ARPA files as a stream: lines with their numbers, the header, and the sections of
n-grams.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import MAX_LINE_BYTES, SPACES, decode, split_fields

BLOCK_BYTES = 1 << 20  # bytes that are read at a time
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)


class Section(NamedTuple):
    """The n-grams of an order k as in the file: line numbers [N], word ids int32 [N, k], and log10
    weights [N].
    """

    numbers: np.ndarray
    ids: np.ndarray
    log10_probs: np.ndarray
    log10_backoffs: np.ndarray


class ArpaLines:
    """The lines of an ARPA file, read in order, a block of the file in memory at a time."""

    def __init__(self, path: Path, file: BinaryIO):
        self.path = path
        self._file = file
        self.number = 0  # lines that were read
        self._lines: list[str] = []  # of the block
        self._next = 0  # place of the next line in the block
        self._position = 0  # bytes of all lines before the next block

    def _read_block(self) -> bool:
        """Read the next block of whole lines, and return whether there was one."""
        data = self._file.read(BLOCK_BYTES) + self._file.readline(MAX_LINE_BYTES + 1)
        if len(data) > MAX_LINE_BYTES + BLOCK_BYTES:
            number = self.number + data.count(b"\n") + 1
            raise self.error(number, f"a line of at most {MAX_LINE_BYTES:,} bytes", "a longer line")
        text = decode(self.path, data, self._position)
        self._position += len(data)
        self._lines = text.removesuffix("\n").split("\n") if data else []
        self._next = 0
        return bool(data)

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
            f"An ARPA file must have the line {wanted}. Received: {self.path} without it. "
            "Fix: name an ARPA file."
        )

    def peek(self) -> str:
        """Return the next line that is not blank, stripped; "" at the end of the file."""
        while self._next < len(self._lines) or self._read_block():
            for line in itertools.islice(self._lines, self._next, None):
                if line := line.strip(SPACES):
                    return line
                self._next += 1
                self.number += 1
        return ""

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.peek() != wanted:
            raise self.error(self.number + 1, f"the line {wanted}", self.peek())
        self.take(1)

    def error(self, number: int, expected: str, line: str = "") -> InputError:
        """Return the error for a malformed line; "" is the end of the file."""
        if line:
            received = repr(line[:80])
            fix = "correct the line, or get the file again"
        else:
            received = "the end of the file"
            fix = "get the file again, it was cut short"
        return InputError(
            f"{self.path}, line {number}: expected {expected}. Received: {received}. Fix: {fix}."
        )

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
            break
        lines.take(1)
        numbers.append(int(match[2]))
    if match or not numbers:
        raise lines.error(lines.number + 1, f"ngram {len(numbers) + 1}=NUMBER", lines.peek())
    return numbers


def read_section(
    lines: ArpaLines,
    order: int,
    number: int,
    highest: int,
    place: dict[str, int],
    new_ids: Iterator[int] | None = None,
) -> Section:
    r"""Read the n-grams under `\ORDER-grams:`.

    `place` has the ids of words; new words get the `new_ids`, if any.
    """
    lines.expect(f"\\{order}-grams:")
    optional = "" if order == highest else " and perhaps log10 back-off"
    expected = f"log10 probability, {order} word{'s' * (order > 1)}{optional}"
    nothing = np.zeros(0)
    sections = [Section(np.zeros(0, np.int64), np.zeros((0, order), np.int32), nothing, nothing)]
    left = number
    while left:
        first = lines.number + 1
        block = lines.take(left)
        if not block:
            raise lines.error(first, expected)
        rows = {}
        for i, line in enumerate(block, first):
            fields = split_fields(line)
            if not fields:  # a blank line
                continue
            if len(fields) not in (order + 1, order + 2):
                raise lines.error(i, expected, " ".join(fields))
            if new_ids and fields[1] not in place:
                place[fields[1]] = next(new_ids)
            rows[i] = fields
        sections.append(_parse_rows(lines, rows, order, order == highest, place))
        left -= len(rows)
    if lines.peek() and not lines.peek().startswith("\\"):
        expected = f"the end of the {number} {order}-grams that the header lists"
        raise lines.error(lines.number + 1, expected, lines.peek())
    return Section(*map(np.concatenate, zip(*sections, strict=True)))


def _parse_rows(
    lines: ArpaLines,
    rows: dict[int, list[str]],
    order: int,
    is_highest: bool,
    place: Mapping[str, int],
) -> Section:
    """Parse the fields of lines of n-grams, by the number of the line."""
    numbers = np.array([*rows], np.int64)
    fields = [*rows.values()]

    def refuse(is_wrong: np.ndarray, expected: str) -> None:
        if is_wrong.any():
            i = int(np.argmax(is_wrong))
            raise lines.error(numbers[i], expected, "\t".join(fields[i]))

    log10_probs = _parse_numbers([row[0] for row in fields])
    refuse(~(log10_probs < np.inf), "a number")
    backoffs = _parse_numbers([row[-1] if len(row) == order + 2 else "0" for row in fields])
    refuse(~(backoffs < np.inf), "a number")
    refuse(log10_probs > 0, "a log10 probability of 0 or less")
    if is_highest:
        refuse(backoffs != 0, f"no back-off, since {order} is the highest order")
    words = [word for row in fields for word in row[1 : order + 1]]
    ids = np.fromiter(map(place.get, words, itertools.repeat(-1)), np.int32).reshape(-1, order)
    is_unknown = ids < 0
    if is_unknown.any():
        unknown = words[int(np.argmax(is_unknown))]
        has_unknown = np.logical_or.reduce(is_unknown, axis=1)
        refuse(has_unknown, f"words of the vocabulary, and {unknown!r} is not one")
    return Section(numbers, ids, log10_probs, backoffs)


def _parse_numbers(column: list[str]) -> np.ndarray:
    """Return numbers, float64; NaN for other text."""
    try:
        return np.array(column, np.float64)
    except ValueError:
        return np.array([text if _NUMBER.fullmatch(text) else "nan" for text in column], np.float64)
