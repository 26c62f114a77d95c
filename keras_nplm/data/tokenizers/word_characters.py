"""Characters of words, and ranges of characters for regular expressions."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable

# what has marks: planes 0 and 1 from the first mark on, and the selectors of variants
_MARKS = (range(0x300, 0x1F000), range(0xE0100, 0xE01F0))
_ZERO_WIDTH = "\u200c\u200d"  # the non-joiner of Persian words, and the joiner of Indic ones
# the marks that are invisible without a letter before them, as ranges of a regular expression: the
# former, the grapheme joiner, vowels of Khmer that have no shape, and selectors of variants
INVISIBLE_MARKS = (
    "\u034f\u17b4\u17b5\u180b-\u180d\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
)
_INVISIBLE = re.compile(f"[{INVISIBLE_MARKS}]")


def is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def is_mark(character: str) -> bool:
    """Return whether a character only changes a letter before it: an accent, a vowel sign, a point.

    Python's `\\w` has no marks, though a word of Hindi has them in its middle.
    """
    return unicodedata.category(character).startswith("M") or character in _ZERO_WIDTH


def is_invisible(character: str) -> bool:
    """Return whether a character is a mark that only changes how a character before it looks."""
    return _INVISIBLE.match(character) is not None


@functools.cache
def match_marks() -> str:
    """Return all marks as ranges for a regular expression of Python."""
    codes = [code for code in itertools.chain(*_MARKS) if is_mark(chr(code))]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in find_ranges(codes))


def find_ranges(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last code of each run of consecutive codes, which are ascending."""
    ranges: list[tuple[int, int]] = []
    for code in codes:
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return ranges
