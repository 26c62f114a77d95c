"""Errors of bytes that are not UTF-8 text: the remedy that they name restores the text."""

import re

import pytest

from keras_nplm.io.encodings import utf8_error
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_text

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
