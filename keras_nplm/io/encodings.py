"""Errors of bytes that are not UTF-8 text, with the encoding that they probably have."""

import codecs
import os

from keras_nplm.io.errors import InputError

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def utf8_error(path: str | os.PathLike, data: bytes, offset: int = 0) -> InputError:
    """Return the error of bytes that are not UTF-8, or hold a NUL character, with a remedy that keeps the text.

    Args:
        path: the file, for the error.
        data: the bytes, from the beginning of the file or of a line.
        offset: their position in the file.

    Example:

    >>> utf8_error("text.txt", "the cat".encode("utf-16-le"))
    InputError('text.txt is not UTF-8 text (byte 1). Fix: convert it from its encoding, for example by `iconv -f
    UTF-16LE -t UTF-8`.')
    """
    try:
        at = data.decode("utf-8").encode("utf-8").index(0)
    except UnicodeDecodeError as error:
        at, encoding = error.start, _guess_encoding(data) if not offset else "LATIN1"
    else:
        encoding = _guess_encoding(data)
        if encoding == "LATIN1":
            return InputError(
                f"{path} must not hold NUL characters. Received: one at byte {offset + at}. Fix: remove them, for "
                "example by `tr -d '\\000'`. If the file is UTF-16, convert it by `iconv -f UTF-16 -t UTF-8` instead."
            )
    return InputError(
        f"{path} is not UTF-8 text (byte {offset + at}). Fix: convert it from its encoding, for example by "
        f"`iconv -f {encoding} -t UTF-8`."
    )


def _guess_encoding(data: bytes) -> str:
    """UTF-32 or UTF-16 by the byte order mark; without it, by the NUL characters of English text; else Latin-1."""
    marked = next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)
    if marked:
        return marked
    for name, zeros, others in (("UTF-16LE", data[1::2], data[::2]), ("UTF-16BE", data[::2], data[1::2])):
        if len(data) > 3 and zeros.count(0) > len(zeros) / 2 and others.count(0) < len(others) / 8:
            return name
    return "LATIN1"
