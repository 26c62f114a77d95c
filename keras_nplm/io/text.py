"""Text of files: UTF-8 lines, plain or compressed; the white space of file formats; escapes for
terminals and tables.

Archives are known by their first bytes. A line has at most 16 MiB, so that no file, however it is
compressed, claims much memory. The total is not limited: all readers take a text line by line.
"""

import bz2
import contextlib
import functools
import gzip
import io
import lzma
import os
import stat
import unicodedata
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keras_nplm.io.errors import InputError
from keras_nplm.io.extras import import_extra

# between the words of a file format, as in KenLM: any other character may be in a word
SPACES = " \t\r\n"
# all characters that `str.isspace` knows
WHITE_SPACE = "".join(filter(str.isspace, map(chr, range(0x3001))))
# of text; a line needs up to 25 times its size in memory, once it is tokenised
MAX_LINE_BYTES = 1 << 24
_BUFFER = 1 << 17  # bytes of text that are handed on at a time
# by the first bytes of a file; the second of zstd are those of `pzstd`
_ARCHIVES = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x50\x2a\x4d\x18": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bzip2",
}
_MODULES = {"gzip": gzip, "xz": lzma, "bzip2": bz2}
# documents, whose bytes could pass for text
_DOCUMENTS = {
    b"PK\3\4": "a zip archive, or a document of Word, Excel or LibreOffice",
    b"{\\rtf": "a document in Rich Text Format",
    b"%PDF-": "a PDF document",
}
_FORMULA = tuple("=+-@＝＋－＠")


def split_fields(line: str) -> list[str]:
    """Split a line at ASCII white space alone. A no-break space may be in a word."""
    line = line.replace("\t", " ")
    if line.isprintable():  # the only white space in it is the space
        return line.split()
    return [*filter(None, line.replace("\r", " ").replace("\n", " ").split(" "))]


def check_is_file(path: str | os.PathLike, *, or_pipe: bool = False) -> None:
    """Check that a path is a regular file, which can be read to its end and again."""
    with explain_read_errors(path):
        mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or (or_pipe and stat.S_ISFIFO(mode))):
        raise InputError(
            f"Cannot read {path}: it is a directory, a device or a pipe. Fix: name a regular file."
        )


@contextlib.contextmanager
def explain_read_errors(path: str | os.PathLike) -> Iterator[None]:
    """Turn an error of the file system into one clear error."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"Cannot read {path}: {reason}. Fix: check the name and its permissions."
        ) from error


def read_text(path: str | os.PathLike) -> str:
    """Read a whole UTF-8 file. Line ends are kept as they are."""
    check_is_file(path)
    with explain_read_errors(path):
        return decode(path, Path(path).read_bytes())


def read_lines(path: str | os.PathLike, stream: BinaryIO | None = None) -> Iterator[str]:
    """Read the lines of a text file or stream; see `open_text` and `decode_lines`."""
    with open_text(path, stream) as file:
        yield from decode_lines(file, str(path))


def decode_lines(
    file: BinaryIO,
    name: str,
    start: int = 0,
    stop: int | None = None,
    fix: str = "put each sentence into a line of its own, or break lines with `fold -s -w 9999`.",
) -> Iterator[str]:
    """Decode the UTF-8 lines of a binary file, from `start` to `stop`, without line ends and byte
    order mark. `fix` is the remedy for a line that is too long.
    """
    offset = start
    for line in iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b""):
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{name}, byte {offset:,}: a line must have at most {MAX_LINE_BYTES:,} bytes. "
                f"Received: more. Fix: {fix}"
            )
        if stop is not None:
            line = line[: stop - offset]
        yield decode(name, line, offset).rstrip("\r\n")
        offset += len(line)
        if offset == stop:
            return


def decode(name: str | os.PathLike, data: bytes, offset: int = 0) -> str:
    """Decode UTF-8 at a position of a file. A byte order mark at its start is removed.

    Bytes that are not UTF-8, and NUL characters, which binary data and UTF-16 hold, are refused.
    """
    try:
        text = data.decode("utf-8")
        place = data.find(0)
    except UnicodeDecodeError as error:
        place = error.start
    if place >= 0:
        raise InputError(
            f"{name} is not UTF-8 text (byte {offset + place}). Fix: name a text file, or convert "
            "it by `iconv -f ENCODING -t UTF-8`, such as WINDOWS-1252 for Western European, UTF-16 "
            "for Windows, GB18030 for Chinese. If few bytes are wrong, leave them out by "
            "`iconv -c -f UTF-8 -t UTF-8`."
        )
    return text.removeprefix("\ufeff") if offset == 0 else text


def encode(text: str) -> bytes:
    """Encode text in UTF-8. Half a surrogate pair is refused."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError("Text must be valid UTF-8. Received: half a surrogate pair.") from error


def is_compressed(path: str | os.PathLike) -> bool:
    """Return whether a file is decompressed as it is read. Its first bytes decide."""
    check_is_file(path)
    with explain_read_errors(path), open(path, "rb") as file:
        return _find_kind(file.read(16)) is not None


def _find_kind(data: bytes) -> str | None:
    return next((name for mark, name in _ARCHIVES.items() if data.startswith(mark)), None)


@contextlib.contextmanager
def open_text(
    path: str | os.PathLike, stream: BinaryIO | None = None
) -> Iterator[io.BufferedReader]:
    """Open a text file, a pipe or an open `stream` as a buffered binary stream, decompressed if it
    is an archive.
    """
    kind: str | None = None
    errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error, lzma.LZMAError)
    if stream is None:
        check_is_file(path, or_pipe=True)
    try:
        with open(path, "rb") if stream is None else contextlib.nullcontext(stream) as raw:
            file: Any = raw if hasattr(raw, "peek") else io.BufferedReader(raw)
            kind = _find_kind(file.peek(16))
            if kind:
                library = _MODULES.get(kind) or import_extra("backports.zstd", str(path))
                errors += (library.ZstdError,) if kind == "zstd" else ()
                file = io.BufferedReader(library.open(file), _BUFFER)
            head = file.peek(16)
            if found := [found for mark, found in _DOCUMENTS.items() if head.startswith(mark)]:
                raise InputError(
                    f"{path} must be text, plain or compressed by gzip, bzip2, xz or zstd. "
                    f"Received: {found[0]}. Fix: extract its text, or save it as plain text "
                    "(UTF-8)."
                )
            yield file
    except errors as error:
        with explain_read_errors(path):
            if getattr(error, "errno", None):  # gzip and bzip2 raise OSError without a number
                raise
        raise InputError(
            f"{path} is not a whole {kind} archive ({error}). Fix: copy it again."
        ) from error


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe precedes it if it could be
    one.
    """
    return f"'{cell}" if len(cell) > 1 and cell.lstrip("\"'").startswith(_FORMULA) else cell


def escape_controls(text: str) -> str:
    """Return text for a terminal: control characters but line ends and tabs become backslash
    escapes.
    """
    if text.isprintable():
        return text
    return "".join(
        repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c
        for c in text
    )
