"""Text files, plain or compressed (`.gz` by gzip, `.zst` by Zstandard), read as a stream in bounded memory.

A line has at most 16 MiB, so that no file, however it is compressed, claims much memory. The total is not limited: all
readers take a text line by line.
"""

import contextlib
import functools
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from keras_nplm.io.encodings import utf8_error
from keras_nplm.io.errors import InputError
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import check_is_file

MAX_LINE_BYTES = 1 << 24  # of text; a line needs up to 25 times its size in memory, once it is tokenised
_SUFFIXES = (".gz", ".zst")
_BUFFER = 1 << 17  # bytes of decompressed text that are handed on at a time
_COUNTED = 1 << 20  # bytes in which line ends are counted at a time
_READ = 1 << 9  # compressed bytes at a time, which expand to 16 MiB at most


def decode_lines(file: BinaryIO, name: str, start: int = 0, stop: int | None = None) -> Iterator[str]:
    """Decode the UTF-8 lines of an open binary file, without line ends (LF, CR LF or CR) and without a byte order mark.

    Args:
        file: the file, at the position `start`.
        name: path of the file, for errors.
        start: position of the first line in the file.
        stop: position after the last line. Default: the end of the file.

    Raises:
        InputError: the file is not UTF-8 text, holds a NUL character, or has a line of more than 16 MiB.
    """
    offset = start
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > MAX_LINE_BYTES:
            raise _line_length_error(name, number, start)
        if stop is not None:
            line = line[: stop - offset]
        try:
            text = line.decode("utf-8-sig" if offset == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(name, line, offset) from error
        if "\0" in text:  # UTF-16 text without a byte order mark is full of them
            raise utf8_error(name, line, offset)
        yield from text.rstrip("\r\n").split("\r")
        offset += len(line)
        if offset == stop:
            return


def _line_length_error(name: str, number: int, start: int) -> InputError:
    """Return the error for a line that is too long: the one of this `number`, from 1, after the position `start`."""
    with open(name, "rb") if start else contextlib.nullcontext() as file:
        before = sum(file.read(min(_COUNTED, start - at)).count(b"\n") for at in range(0, start, _COUNTED))
    return InputError(
        f"{name}, line {before + number}: a line must have at most {MAX_LINE_BYTES:,} bytes. Received: a longer line. "
        "Fix: put each sentence into a line of its own, or break lines at spaces with `fold -s -w 9999`."
    )


def is_compressed(path: str | Path) -> bool:
    """Return whether a file is decompressed as it is read. Its suffix decides.

    Example:

    >>> is_compressed("news.en.gz"), is_compressed("news.en")
    (True, False)
    """
    return Path(path).suffix in _SUFFIXES


@contextlib.contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """Open a text file as a buffered binary stream, decompressed if its name ends with `.gz` or `.zst`.

    Args:
        path: the file.

    Raises:
        InputError: the file is absent or unreadable, the archive is damaged or truncated, or the package `zstandard`
            is missing for a `.zst` file. Damage is found when the damaged place is read.

    Example:

    >>> path = getfixture("tmp_path") / "text.gz"
    >>> _ = path.write_bytes(gzip.compress(b"the cat"))
    >>> with open_text(path) as file:
    ...     file.read()
    b'the cat'
    """
    check_is_file(path, or_pipe=True)
    try:
        with _open(path) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        suffix = Path(path).suffix
        raise InputError(
            f"{path} is not a whole {suffix} archive ({error}). Fix: download or copy it again."
        ) from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Fix: check the name and its permissions.") from error


def _open(path: str | Path) -> BinaryIO:
    suffix = Path(path).suffix
    if suffix == ".zst":
        library = import_extra("zstandard", "zstd", str(path))  # in the standard library from Python 3.14
        return io.BufferedReader(_ZstandardFile(open(path, "rb"), library), _BUFFER)
    return gzip.open(path, "rb") if suffix == ".gz" else open(path, "rb")


class _ZstandardFile(io.RawIOBase):
    """The text of a `.zst` file of one frame or several. Unlike zstandard's own reader, it notices a truncated file."""

    def __init__(self, file: BinaryIO, library: ModuleType):
        self._library, self._file = library, file
        self._frame = None  # decompressor of the current frame
        self._compressed, self._text = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text and (self._compressed or self._fill()):
            self._frame = self._frame or self._library.ZstdDecompressor().decompressobj()
            try:
                self._text = memoryview(self._frame.decompress(self._compressed))
            except self._library.ZstdError as error:
                raise EOFError(str(error)) from error
            self._compressed = self._frame.unused_data if self._frame.eof else b""
            self._frame = None if self._frame.eof else self._frame
        size = min(len(buffer), len(self._text))
        buffer[:size], self._text = self._text[:size], self._text[size:]
        return size

    def _fill(self) -> bool:
        self._compressed = self._file.read(_READ)
        if not self._compressed and self._frame:
            raise EOFError("it ends within a frame")
        return bool(self._compressed)

    def close(self) -> None:
        self._file.close()
        super().close()
