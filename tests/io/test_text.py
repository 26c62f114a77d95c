"""Files that are no UTF-8 text are named with a remedy; text of unknown origin is harmless on terminals."""

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import threading

import pytest

from keras_nplm.io.errors import InputError
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.text import escape_controls, escape_formula, read_lines, read_text, utf8_error

ENGLISH = "the cat sat\non the mat\n"


@pytest.mark.parametrize(
    "encoding, text",
    [
        *((encoding, ENGLISH) for encoding in ("utf-16", "utf-32", "utf-16-le", "utf-16-be")),
        ("latin1", "é"),
        ("latin1", "au café\n" * 9),
        ("utf-16", "привет\n"),
    ],
)
def test_encoding_that_the_error_names_restores_the_text(tmp_path, encoding, text):
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    error = utf8_error(path, path.read_bytes())
    named = re.fullmatch(rf"{path} is not UTF-8 text \(byte \d+\)\. Fix: .* `iconv -f (\S+) -t UTF-8`\.", str(error))
    assert path.read_bytes().decode(named[1]) == text
    if encoding in ("utf-16", "utf-32", "latin1"):
        with pytest.raises(InputError, match=f"iconv -f {named[1]} "):
            read_text(path)


@pytest.mark.parametrize("data", [b"the c\0at\n", b"\0", b"\0\0\0\0\0\0", "привет, кот\n".encode("utf-16-le")])
def test_nul_characters_are_removed_or_the_text_is_utf16(data):
    """Without a byte order mark no rule tells a damaged text from UTF-16."""
    message = str(utf8_error("text.txt", data, 100))
    assert f"Received: one at byte {100 + data.index(0)}. Fix: remove them" in message and "-f UTF-16 " in message


def test_latin1_letters_after_the_first_line_are_no_byte_order_mark():
    assert "(byte 57). Fix: convert it from its encoding, for example by `iconv -f LATIN1" in str(
        utf8_error("text.txt", b"\xff\xfe\n", 57)
    )


@pytest.mark.parametrize("word", ["=1+1", "+1", "-cmd|x", "@SUM(1)", '"=1+1"', "'=1", "＝1", '"""@x'])
def test_cells_are_no_formulas(word):
    ((cell, _),) = csv.reader(io.StringIO(f"{escape_formula(word)}\t3\n"), delimiter="\t")
    assert cell[0] == "'" and cell.endswith(word)


@pytest.mark.parametrize("word", ["cat", "=", "-", '"', "'s", "x=1", "don't", "日本"])
def test_plain_words_stay_unchanged(word):
    assert escape_formula(word) == word and escape_controls(word) == word


def test_escape_sequences_are_shown_as_text():
    assert escape_controls("a\x1b[2J\x9b31m\x7f\r\x00") == r"a\x1b[2J\x9b31m\x7f\r\x00"
    assert escape_controls("one\ttwo\nthree \u200c") == "one\ttwo\nthree \u200c"


def test_a_cell_of_a_table_is_one_line():
    assert markdown_table(["a", "b"], [["x\n# y", "p | q"]]).splitlines()[2:] == ["| x # y | p \\| q |"]


TAR = b"text.txt".ljust(257, b"\0") + b"ustar\x0000"


@pytest.mark.parametrize(
    "data, message",
    [
        (b"PK\3\4...", "Received: a zip archive"),
        (gzip.compress(TAR, mtime=0), "Received: a tar archive"),
        (b"%PDF-1.7\n", "Received: a PDF document"),
        (b"mmap lm http://kheafield.com/code format version 5\n\0", "Received: a binary model of KenLM"),
        (bytes(range(1, 256)), "Received: binary data"),
        (b"\x7fELF\1\1\r" + bytes(600), "must not hold NUL characters"),
        (b"the cat\rthe dog\r", "must end with LF or CR LF. Received: CR alone"),
        ("the cat\n".encode("utf-16"), "iconv -f UTF-16 "),
        (lzma.compress(b"the cat\n" * 99)[:-9], "is not a whole xz archive"),
    ],
)
def test_files_that_are_no_text_are_named(tmp_path, data, message):
    (tmp_path / "text.txt").write_bytes(data)
    with pytest.raises(InputError, match=message):
        list(read_lines(tmp_path / "text.txt"))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("name", ["text.txt", "TEXT.GZ", "pipe"])
def test_archives_are_known_by_their_first_bytes(tmp_path, compress, name):
    data = compress("the cat\n§\xa05\x85\u2028\n".encode()) + compress(b"a\x0b\x0cb\n")
    if name == "pipe":
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,))
        writer.start()
    else:
        (tmp_path / name).write_bytes(data)
    assert list(read_lines(tmp_path / name)) == ["the cat", "§\xa05\x85\u2028", "a\x0b\x0cb"]
