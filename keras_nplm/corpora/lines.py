"""Bytes -> lines of text."""

from collections.abc import Iterable, Iterator

from keras_nplm.files import not_utf8


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
            raise not_utf8(name, offset + error.start) from error
        if "\0" in text:  # no text has it, and UTF-16 without its mark is full of it
            raise not_utf8(name, offset + line.index(b"\0"))
        yield text.rstrip("\r\n")
        offset += len(line)
