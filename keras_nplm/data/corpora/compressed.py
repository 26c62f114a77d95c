"""Text files that may be compressed: `.gz` by gzip, `.zst` by Zstandard, read as a stream in bounded memory."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file, utf8_error


def decode_lines(file: Iterable[bytes], name: str, offset: int = 0) -> Iterator[str]:
    """The lines of an open binary file without their ends (LF or CR LF), a byte order mark at its start left out.

    Args:
        file: lines of bytes.
        name: what an error calls it.
        offset: of the first line in the file.

    Raises:
        InputError: it is not UTF-8 text.
    """
    for line in file:
        try:
            text = line.decode("utf-8-sig" if offset == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise utf8_error(name, offset + error.start) from error
        if "\0" in text:  # no text has it, and UTF-16 without its mark is full of it
            raise utf8_error(name, offset + line.index(b"\0"))
        yield text.rstrip("\r\n")
        offset += len(line)


_SUFFIXES = (".gz", ".zst")
_READ = 1 << 17  # compressed bytes at a time


def is_compressed(path: str | Path) -> bool:
    """Whether a file is read through a decompressor, told by its name.

    Example:

    >>> is_compressed("news.en.gz"), is_compressed("news.en")
    (True, False)
    """
    return Path(path).suffix in _SUFFIXES


@contextlib.contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """Open the text of a file, decompressed where its name ends with `.gz` or `.zst`, as a buffered binary stream.

    Args:
        path: the file.

    Raises:
        InputError: it is absent or unreadable; its archive is damaged or cut short; `.zst` without the package
            `zstandard`. Damage is found when that place is read.

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
        raise InputError(f"{path} is not a whole {Path(path).suffix} archive ({error}): get it again.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error


def _open(path: str | Path) -> BinaryIO:
    suffix = Path(path).suffix
    if suffix == ".zst":
        return io.BufferedReader(_Zstandard(path), _READ)
    return gzip.open(path, "rb") if suffix == ".gz" else open(path, "rb")


class _Zstandard(io.RawIOBase):
    """The text of a `.zst` file, of one frame or several. zstandard's own reader takes one cut short for whole."""

    def __init__(self, path: str | Path):
        try:
            import zstandard  # not in the standard library before Python 3.14
        except ImportError as error:
            raise InputError(
                f"{path} needs the package zstandard: `pip install keras-nplm[zstd]`, or unpack it with `zstd -d`."
            ) from error
        self._library = zstandard
        self._file = open(path, "rb")  # noqa: SIM115
        self._frame = None  # the decompressor of the frame begun
        self._compressed, self._text = b"", memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
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
