"""Files that are no UTF-8 text: what they are, and the command that makes text of them."""

import codecs
import re
import unicodedata

from keras_nplm.io.errors import InputError

_TO_PLAIN = "save it as plain text (UTF-8) in the program that wrote it."
_PDF = "extract its text, for example by `pdftotext -enc UTF-8 FILE`."
_NO_TEXT = "name a text file."
HEAD_BYTES = 512  # of a file, which `refuse_binary` looks at
# beginnings of files, most specific first: a name, and the remedy
_BINARY: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\3\4", "a zip archive", "extract the text, for example by `unzip -p`."),
    (b"PK\5\6", "a zip archive", "extract the text, for example by `unzip -p`."),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office", _TO_PLAIN),
    (b"{\\rtf", "a document in Rich Text Format", _TO_PLAIN),
    (b"%PDF-", "a PDF document", _PDF),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "extract the text, for example by `7z x -so`."),
    (b"Rar!\x1a\x07", "a RAR archive", "extract the text, for example by `unrar p -inul`."),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", _NO_TEXT),
    (b"\xff\xd8\xff", "a JPEG image", _NO_TEXT),
    (b"GIF87a", "a GIF image", _NO_TEXT),
    (b"GIF89a", "a GIF image", _NO_TEXT),
    (b"SQLite format 3\0", "an SQLite database", "export the text, one sentence a line."),
    (b"ARROW1\0\0", "an Arrow file", "write its text as a text file."),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _NO_TEXT),
    (b"\x93NUMPY", "a NumPy array", _NO_TEXT),
)
# the first file in the zip archive that Word, Excel, LibreOffice or an e-book is
_DOCUMENT_PARTS = (b"[Content_Types].xml", b"_rels/.rels", b"mimetype", b"docProps/", b"word/")
_ZIP_HEADER = 30  # bytes before the name of the first file
_TAR = (257, b"ustar")
# the little-endian mark of UTF-32 begins with that of UTF-16
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_WIDE = ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE")
_MOST_ODD = 0.05  # share of characters that no text has, above which an encoding is wrong
_ACCENTS_IN_A_ROW = re.compile(rb"[\x80-\xff](?=[\x80-\xff])")
_MOST_IN_A_ROW = 0.3  # share of the accents of Western European text that a second one follows
_UNDEFINED = {0x81, 0x8D, 0x8F, 0x90, 0x9D}  # bytes that Windows-1252 lacks


def refuse_binary(name: object, head: bytes) -> None:
    """Refuse a file that its first `HEAD_BYTES` bytes show to be no text."""
    at, mark = _TAR
    if head[at:].startswith(mark):
        kind, fix = "a tar archive", "extract the text, for example by `tar -xOf`."
    else:
        found = (row for row in _BINARY if head.startswith(row[0]))
        _, kind, fix = next(found, (b"", "", ""))
    if kind == "a zip archive" and head[_ZIP_HEADER:].startswith(_DOCUMENT_PARTS):
        kind, fix = "a document of Word, Excel, LibreOffice or an e-book", _TO_PLAIN
    if kind:
        raise InputError(
            f"{name} must be text, plain or compressed by gzip, bzip2, xz or zstd. "
            f"Received: {kind}. Fix: {fix}"
        )


def explain_encoding(name: object, sample: bytes, start: int, place: int, is_utf8: bool) -> str:
    """Return the error of bytes that are no UTF-8 text, with the command that converts their file.

    Args:
        name: the file.
        sample: a line of the file, and what follows it.
        start: the place of the sample in the file.
        place: the place of the first wrong byte in the sample.
        is_utf8: whether text before it has characters beyond ASCII, in UTF-8.
    """
    problem = f"{name} is not UTF-8 text (byte {start + place})."
    is_utf8 = is_utf8 or not sample[:place].removeprefix(codecs.BOM_UTF8).isascii()
    encoding = _find_wide(sample, start) if b"\0" in sample or not start else ""
    if not encoding and b"\0" in sample:
        return f"{problem} Received: binary data. Fix: name a text file."
    if not encoding and is_utf8:
        return (
            f"{problem} Received: UTF-8 before it, so that the file is damaged, or mixes "
            "encodings. Fix: leave out the wrong bytes by `iconv -c -f UTF-8 -t UTF-8`."
        )
    if encoding or _is_western(sample):
        return (
            f"{problem} Fix: name a text file, or convert it, for example by "
            f"`iconv -f {encoding or 'WINDOWS-1252'} -t UTF-8`."
        )
    return (
        f"{problem} Fix: name a text file, or convert it by `iconv -f ENCODING -t UTF-8`, such as "
        "GB18030 for Chinese, SHIFT_JIS for Japanese, WINDOWS-1251 for Russian."
    )


def _find_wide(sample: bytes, start: int) -> str:
    """Return the name of UTF-16 or UTF-32, or an empty string for different data."""
    if not start:
        for mark, encoding in _BYTE_ORDER_MARKS:
            if sample.startswith(mark):
                return encoding
    shares = {}
    for encoding in _WIDE:
        width = int(encoding[4:6]) // 8
        aligned = sample[-start % width :]
        text = aligned[: len(aligned) // width * width].decode(encoding, "replace")
        shares[encoding] = sum(map(_is_odd, text)) / max(1, len(text))
    best = min(shares, key=shares.__getitem__)
    return best if shares[best] <= _MOST_ODD and b"\0" in sample else ""


def _is_odd(character: str) -> bool:
    """Return whether no text has a character: a control, or one that Unicode does not assign."""
    if character in "\t\r\n":
        return False
    return character == "\ufffd" or unicodedata.category(character) in ("Cc", "Cn", "Co", "Cs")


def _is_western(sample: bytes) -> bool:
    """Return whether bytes are text in Windows-1252, whose letters are also those of Latin-1: an
    accent stands alone between letters of ASCII.
    """
    accents = sum(byte > 127 for byte in sample)
    in_a_row = len(_ACCENTS_IN_A_ROW.findall(sample))
    return in_a_row <= _MOST_IN_A_ROW * accents and not _UNDEFINED & {*sample}
