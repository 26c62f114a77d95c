"""Escape text of unknown origin, such as words of a stranger's model, for spreadsheets and terminals."""

import unicodedata

_FORMULA = tuple("=+-@＝＋－＠")


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe precedes it if it could be one.

    A single character cannot be one, so punctuation marks stay unchanged.

    Example:

    >>> escape_formula("=HYPERLINK(0)"), escape_formula("-"), escape_formula("cat")
    ("'=HYPERLINK(0)", '-', 'cat')
    """
    return f"'{cell}" if len(cell) > 1 and cell.lstrip("\"'").startswith(_FORMULA) else cell


def escape_controls(text: str) -> str:
    r"""Return text for a terminal: control characters, as in escape sequences, become backslash escapes.

    Line ends and tabs stay, and so do the characters that Arabic, Indic and other scripts join letters with.

    Example:

    >>> print(escape_controls("\x1b]0;title\x07 \u0645\u06cc\u200c\u0634"))
    \x1b]0;title\x07 می‌ش
    """
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)
