"""Names of pieces of words in a vocabulary, such as subwords and bytes, and their text."""

import functools
import re
from collections.abc import Sequence
from typing import Literal

from keras_nplm.io.fields import Option

PIECES = Option(least=300, below=1_000_001)  # the range of their number
DEFAULT_PIECES = 8000
PiecesKind = Literal["unigram", "bpe"]
SPACE = "▁"  # stands for white space before or between words
BYTE_NAMES = tuple(f"<0x{byte:02X}>" for byte in range(256))
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_WHITE_SPACE = re.compile(r"<U\+([0-9A-F]{4,6})>")


def name_piece(piece: str) -> str:
    """Return the name of a subword in a vocabulary.

    White space, and `<` before `U+`, are written as in `<U+00A0>`.
    """
    return re.sub(r"\s|<(?=U\+)", lambda found: f"<U+{ord(found[0]):04X}>", piece)


def join_pieces(pieces: Sequence[str]) -> str:
    """Join the names of pieces to text.

    `▁` becomes a space. Bytes become characters, or U+FFFD if they are none.
    """
    return b"".join(map(spell_piece, pieces)).decode("utf-8", "replace")


@functools.lru_cache(maxsize=1 << 16)
def spell_piece(name: str) -> bytes:
    """Return the UTF-8 bytes of the text of a piece; a byte of a character is itself."""
    if byte := _BYTE.fullmatch(name):
        return bytes([int(byte[1], 16)])
    text = name.replace(SPACE, " ")
    if "<" in text:
        text = _WHITE_SPACE.sub(lambda code: chr(int(code[1], 16)), text)
    return text.encode("utf-8")
