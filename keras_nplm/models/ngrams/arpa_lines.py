"""Parser of ARPA files as a stream: lines with their numbers, the header, and the sections of
n-grams.
"""

import itertools
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import MAX_LINE_BYTES, SPACES, decode, open_text, split_fields
from keras_nplm.models.base import row_blocks

_BLOCK_BYTES = 1 << 20  # that are read at a time
_BLOCK_ROWS = 1 << 14  # n-grams that are parsed at a time


class Section(NamedTuple):
    """The n-grams of an order k as in the file: line numbers [N], word ids int32 [N, k], and log10
    weights [N].
    """

    numbers: np.ndarray
    ids: np.ndarray
    log10_probs: np.ndarray
    log10_backoffs: np.ndarray


def make_line_error(
    path: str | os.PathLike, number: int, expected: str, line: str = ""
) -> InputError:
    """Return the error for a malformed line; "" is the end of the file."""
    received = "the end of the file"
    fix = "get the file again, it was cut short"
    if line:
        received = repr(line.strip(SPACES)[:80])
        fix = "correct the line, or get the file again"
    return InputError(
        f"{path}, line {number}: expected {expected}. Received: {received}. Fix: {fix}."
    )


def read_sections(path: str | os.PathLike, place: defaultdict[str, int]) -> list[Section]:
    """Read the sections of a file, order 1 first.

    `place` has the ids of words. It makes ids for words of the 1-grams that it lacks.
    """
    with open_text(path) as file:
        lines = _Lines(path, file)
        numbers = _read_header(lines)
        sections = [
            _read_section(lines, order, number, len(numbers), place)
            for order, number in enumerate(numbers, start=1)
        ]
        lines.expect("\\end\\")
    return sections


def _read_lines(path: str | os.PathLike, file: BinaryIO) -> Iterator[str]:
    """Read lines in blocks, which takes a third of the time of `decode_lines`. A line that is too
    long is cut, and refused then.
    """
    position = 0
    while data := file.read(_BLOCK_BYTES) + file.readline(MAX_LINE_BYTES):
        yield from decode(path, data, position).removesuffix("\n").split("\n")
        position += len(data)


class _Lines:
    """The lines of a file that are not blank: the next `line`, stripped, and its `number`; "" is
    the end of the file.
    """

    def __init__(self, path: str | os.PathLike, file: BinaryIO):
        self.path = path
        lines = enumerate(_read_lines(path, file), start=1)
        self._rest = ((number, line) for number, line in lines if line and not line.isspace())
        self.number = 0
        self.advance()

    def advance(self) -> None:
        self.number, line = next(self._rest, (self.number + 1, ""))
        self.line = line.strip(SPACES)

    def take(self, number: int) -> list[tuple[int, str]]:
        """Read up to `number` lines, 1 or more, with their numbers."""
        taken = [(self.number, self.line), *itertools.islice(self._rest, number - 1)]
        self.number, _ = taken[-1]
        self.advance()
        return taken

    def expect(self, wanted: str) -> None:
        """Read the next line, which must be `wanted`."""
        if self.line != wanted:
            raise self.error(f"the line {wanted}")
        self.advance()

    def error(self, expected: str) -> InputError:
        return make_line_error(self.path, self.number, expected, self.line)


def _read_header(lines: _Lines) -> list[int]:
    r"""Read the number of n-grams of each order, under `\data\`; comments may be before it."""
    while lines.line != "\\data\\":
        if not lines.line:
            raise InputError(
                f"An ARPA file must have the line \\data\\. Received: {lines.path} without it. "
                "Fix: name an ARPA file."
            )
        lines.advance()
    lines.advance()
    numbers: list[int] = []
    while match := re.fullmatch(rf"ngram\s+{len(numbers) + 1}\s*=\s*(\d{{1,18}})", lines.line):
        numbers.append(int(match[1]))
        lines.advance()
    if not numbers or lines.line.startswith("ngram"):
        raise lines.error(f"ngram {len(numbers) + 1}=NUMBER")
    return numbers


def _read_section(
    lines: _Lines, order: int, number: int, highest: int, place: defaultdict[str, int]
) -> Section:
    r"""Read the n-grams under `\ORDER-grams:`."""
    lines.expect(f"\\{order}-grams:")
    nothing = np.zeros(0)
    sections = [Section(np.zeros(0, np.int64), np.zeros((0, order), np.int32), nothing, nothing)]
    for block in row_blocks(number, _BLOCK_ROWS):
        rows = lines.take(min(block.stop, number) - block.start)
        sections.append(_parse_rows(lines.path, rows, order, highest, place))
    if lines.line and not lines.line.startswith("\\"):
        raise lines.error(f"the end of the {number} {order}-grams that the header lists")
    return Section(*map(np.concatenate, zip(*sections, strict=True)))


def _parse_rows(
    path: str | os.PathLike,
    rows: list[tuple[int, str]],
    order: int,
    highest: int,
    place: defaultdict[str, int],
) -> Section:
    """Parse lines of n-grams, with their numbers."""

    def refuse(is_wrong: np.ndarray, expected: str) -> None:
        if is_wrong.any():
            number, line = rows[int(np.argmax(is_wrong))]
            raise make_line_error(path, number, expected, line)

    fields = [split_fields(line) for _, line in rows]
    lengths = np.array([*map(len, fields)])
    optional = "" if order == highest else " and perhaps log10 back-off"
    refuse(
        (lengths != order + 1) & (lengths != order + 2),
        f"log10 probability, {order} word{'s' * (order > 1)}{optional}",
    )
    log10_probs = _parse_numbers(row[0] for row in fields)
    backoffs = _parse_numbers(row[-1] if len(row) == order + 2 else "0" for row in fields)
    refuse(~((log10_probs < np.inf) & (backoffs < np.inf)), "a number")
    refuse(log10_probs > 0, "a log10 probability of 0 or less")
    if order == highest:
        refuse(backoffs != 0, f"no back-off, since {order} is the highest order")
    words = [word for row in fields for word in row[1 : order + 1]]
    found = map(place.__getitem__, words)
    if order > 1:
        found = map(place.get, words, itertools.repeat(-1))
    ids = np.fromiter(found, np.int32).reshape(-1, order)
    first = words[int(np.argmin(ids))]
    refuse(np.min(ids, axis=1) < 0, f"words of the vocabulary, and {first!r} is not one")
    return Section(np.array([number for number, _ in rows]), ids, log10_probs, backoffs)


def _parse_numbers(texts: Iterable[str]) -> np.ndarray:
    """Return numbers, float64; NaN for other text."""

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return math.nan

    return np.fromiter(map(parse, texts), np.float64)
