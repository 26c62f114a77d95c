"""Files that are no UTF-8 text are named with a remedy; text of unknown origin is harmless on terminals."""

import csv
import io
import re

import pytest

from keras_nplm.io.errors import InputError
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.text import escape_controls, escape_formula, read_text, utf8_error

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
