"""Text of files: UTF-8 lines, plain or compressed; the white space of file formats; escapes for terminals and tables.

Archives are known by their first bytes. A line has at most 16 MiB, so that no file, however it is compressed, claims
much memory. The total is not limited: all readers take a text line by line.
"""

import bz2
import codecs
import contextlib
import functools
import io
import lzma
import os
import re
import stat
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from keras_nplm.io.errors import InputError, import_extra

SPACES = " \t\r\n"  # between the words of a file format, as in KenLM: any other character may be in a word
MAX_LINE_BYTES = 1 << 24  # of text; a line needs up to 25 times its size in memory, once it is tokenised
_BUFFER = 1 << 17  # bytes of text that are handed on at a time
_READ = 1 << 9  # compressed bytes at a time, which expand to 16 MiB at most
_MEMORY = 1 << 29  # bytes for the dictionary of an .xz file
_ARCHIVES = {
    "gzip": (b"\x1f\x8b",),
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([byte]) + b"\x2a\x4d\x18" for byte in range(0x50, 0x60))),
    "xz": (b"\xfd7zXZ\0",),
    "bzip2": tuple(b"BZh%d%b" % (level, mark) for level in range(1, 10) for mark in (b"1AY&SY", b"\x17rE8P\x90")),
}
_MARKS = {  # the mark of UTF-32 may begin with that of UTF-16
    **dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "UTF-32"),
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "UTF-16"),
}
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x7f]")  # in binary data, and in text of no encoding
_FORMULA = tuple("=+-@＝＋－＠")


def split_fields(line: str) -> list[str]:
    """Split a line at ASCII white space alone. A no-break space may be in a word."""
    return [*filter(None, line.replace("\t", " ").replace("\r", " ").replace("\n", " ").split(" "))]


def check_is_file(path: str | os.PathLike, *, or_pipe: bool = False) -> None:
    """Check that a path is a regular file, which can be read to its end and again."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise _cannot_read(path, error) from error
    if not (stat.S_ISREG(mode) or (or_pipe and stat.S_ISFIFO(mode))):
        pipe = "pipe, which can be read only once" if stat.S_ISFIFO(mode) else ""
        kind = pipe or ("directory" if stat.S_ISDIR(mode) else "device")
        raise InputError(f"Cannot read {path}: it is a {kind}. Fix: name a regular file.")


def _cannot_read(path: str | os.PathLike, error: OSError) -> InputError:
    return InputError(f"Cannot read {path}: {error.strerror or error}. Fix: check the name and its permissions.")


def read_text(path: str | os.PathLike) -> str:
    """Read a whole UTF-8 file. Line ends are kept as they are."""
    check_is_file(path)
    try:
        return decode(path, Path(path).read_bytes())
    except OSError as error:
        raise _cannot_read(path, error) from error


def read_lines(path: str | os.PathLike, stream: BinaryIO | None = None) -> Iterator[str]:
    """Read the lines of a text file or stream; see `open_text` and `decode_lines`."""
    with open_text(path, stream) as file:
        yield from decode_lines(file, str(path))


def decode_lines(file: BinaryIO, name: str, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """Decode the UTF-8 lines of a binary file, from `start` to `stop`, without line ends and byte order mark."""
    offset = start
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            place = f", line {number}" if not start else f", byte {offset:,}"
            raise InputError(
                f"{name}{place}: a line must have at most {MAX_LINE_BYTES:,} bytes. Received: a longer line. Fix: put "
                "each sentence into a line of its own, or break lines at spaces with `fold -s -w 9999`."
            )
        if stop is not None:
            line = line[: stop - offset]
        yield decode(name, line, offset).rstrip("\r\n")
        offset += len(line)
        if offset == stop:
            return


def decode(name: str | os.PathLike, data: bytes, offset: int = 0) -> str:
    """Decode UTF-8 at a position of a file. A byte order mark at its start is removed."""
    try:
        text = data.decode("utf-8-sig" if offset == 0 else "utf-8")
    except UnicodeDecodeError as error:
        raise utf8_error(name, data, offset) from error
    if "\0" in text:
        raise utf8_error(name, data, offset)
    return text


def is_compressed(path: str | os.PathLike) -> bool:
    """Return whether a file is decompressed as it is read. Its first bytes decide."""
    check_is_file(path)
    try:
        with open(path, "rb") as file:
            return _find_kind(file.read(16)) is not None
    except OSError as error:
        raise _cannot_read(path, error) from error


def _find_kind(data: bytes) -> str | None:
    return next((name for name, marks in _ARCHIVES.items() if data.startswith(marks)), None)


@contextlib.contextmanager
def open_text(path: str | os.PathLike, stream: BinaryIO | None = None) -> Iterator[BinaryIO]:
    """Open a text file, a pipe or an open `stream` as a buffered binary stream, decompressed if it is an archive."""
    kind = None
    try:
        if stream is None:
            check_is_file(path, or_pipe=True)
        with open(path, "rb") if stream is None else contextlib.nullcontext(stream) as raw:
            file: Any = raw if hasattr(raw, "peek") else io.BufferedReader(raw)  # type: ignore[type-var]
            if kind := _find_kind(file.peek(16)):
                file = io.BufferedReader(_Decompressed(file, _find_decompressor(kind, path)), _BUFFER)
            _check_line_ends(path, file.peek(512))
            yield file
    except EOFError as error:
        raise InputError(f"{path} is not a whole {kind} archive ({error}). Fix: download or copy it again.") from error
    except OSError as error:
        raise _cannot_read(path, error) from error


def _check_line_ends(path: str | os.PathLike, first: bytes) -> None:
    if b"\n" not in first and b"\r" in first.rstrip(b"\r") and b"\0" not in first:
        raise InputError(
            f"The lines of {path} must end with LF or CR LF. Received: CR alone. Fix: convert them, for example by "
            "`tr '\\r' '\\n'`."
        )


def _find_decompressor(kind: str, path: str | os.PathLike) -> Callable[[], Any]:
    """Return a function that makes the decompressor of one frame of an archive."""
    if kind == "zstd":
        library = import_extra("zstandard", "zstd", str(path))  # in the standard library from Python 3.14
        return lambda: library.ZstdDecompressor().decompressobj()
    return {
        "gzip": lambda: zlib.decompressobj(31),
        "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY),
        "bzip2": bz2.BZ2Decompressor,
    }[kind]


class _Decompressed(io.RawIOBase):
    """The text of an archive of one frame or several. Unlike zstandard's own reader, it notices a truncated file."""

    def __init__(self, file: BinaryIO, make_frame: Callable[[], Any]):
        self._file, self._make_frame = file, make_frame
        self._frame = None  # decompressor of the current frame
        self._compressed, self._text = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text and (self._compressed or self._fill()):
            self._frame = self._frame or self._make_frame()
            try:
                self._text = memoryview(self._frame.decompress(self._compressed))
            except Exception as error:  # each library has its own kinds
                raise EOFError(str(error)) from error
            self._compressed = self._frame.unused_data.lstrip(b"\0") if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size

    def _fill(self) -> bool:
        self._compressed = self._file.read(_READ)
        if not self._compressed and self._frame:
            raise EOFError("it ends within a frame")
        if not self._frame:
            self._compressed = self._compressed.lstrip(b"\0")  # padding after a frame
        return bool(self._compressed)


def utf8_error(path: str | os.PathLike, data: bytes, offset: int = 0) -> InputError:
    """Return the error of bytes that are not UTF-8, or hold a NUL character, with a remedy that keeps the text."""
    marks = (name for mark, name in _MARKS.items() if not offset and data.startswith(mark))
    encoding = next(marks, "LATIN1")
    try:
        at = offset + data.decode("utf-8").encode("utf-8").index(0)
    except UnicodeDecodeError as error:
        at = offset + error.start
        if encoding == "LATIN1" and _CONTROLS.search(data[:_BUFFER]):
            return InputError(f"{path} must be UTF-8 text. Received: binary data (byte {at}). Fix: name a text file.")
        fix = f"convert it from its encoding, for example by `iconv -f {encoding} -t UTF-8`."
        return InputError(f"{path} is not UTF-8 text (byte {at}). Fix: {fix}")
    return InputError(
        f"{path} must not hold NUL characters, as binary data and UTF-16 do. Received: one at byte {at}. Fix: name a "
        "text file, or convert UTF-16, for example by `iconv -f UTF-16LE -t UTF-8`."
    )


def escape_formula(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: an apostrophe precedes it if it could be one."""
    return f"'{cell}" if len(cell) > 1 and cell.lstrip("\"'").startswith(_FORMULA) else cell


def escape_controls(text: str) -> str:
    """Return text for a terminal: control characters but line ends and tabs become backslash escapes."""
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)
