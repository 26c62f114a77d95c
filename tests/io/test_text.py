"""Files that are no UTF-8 text are named with a remedy; text of unknown origin is harmless on
terminals.
"""

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import sys
import threading
import zipfile

import pytest

from keras_nplm.io import progress
from keras_nplm.io.errors import InputError
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.text import decode, escape_controls, escape_formula, read_lines, read_text

ENGLISH = "the cat sat\non the mat\n"


@pytest.mark.parametrize(
    "encoding, text",
    [("utf-16", ENGLISH), ("utf-16-le", ENGLISH), ("utf-16", "привет\n"), ("latin1", "au café\n")],
)
def test_encoding_that_the_error_names_restores_the_text(tmp_path, encoding, text):
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(InputError) as caught:
        read_text(path)
    named = re.search(
        r"is not UTF-8 text \(byte \d+\)\. Fix: .* `iconv -f (\S+) -t UTF-8`\.$", str(caught.value)
    )
    assert path.read_bytes().decode(named[1]) == text
    with pytest.raises(InputError, match=r"\(byte 57\)\. Fix: .*`iconv -f LATIN1 "):
        decode("text.txt", b"\xff\xfe\n", 57)  # after the first line these are letters


def test_the_byte_that_is_not_utf8_is_counted_from_the_start():
    for mark in (b"", b"\xef\xbb\xbf"):
        for data in (mark + b"caf\xe9", mark + b"caf\0"):
            with pytest.raises(InputError, match=rf"\(byte {len(mark) + 3}\)"):
                decode("text.txt", data)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("names", [[], ["a.txt"]])
def test_a_zip_archive_is_no_text(tmp_path, compression, names):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", compression) as archive:
        for name in names:
            archive.writestr(name, ENGLISH)
    with pytest.raises(InputError, match=r"a.zip must be text.* Fix: extract .* `unzip -p`\.$"):
        [*read_lines(tmp_path / "a.zip")]


@pytest.mark.parametrize(
    "word", ["=1+1", "+1", "-cmd|x", "@SUM(1)", '"=1+1"', "'=1", "＝1", '"""@x']
)
def test_cells_are_no_formulas(word):
    ((cell, _),) = csv.reader(io.StringIO(f"{escape_formula(word)}\t3\n"), delimiter="\t")
    assert cell[0] == "'" and cell.endswith(word)
    assert all(
        escape_formula(plain) == plain
        for plain in ["cat", "=", "-", '"', "'s", "x=1", "don't", "日本"]
    )


def test_text_of_unknown_origin_is_shown_as_text():
    assert escape_controls("a\x1b[2J\x9b31m\x7f\r\x00") == r"a\x1b[2J\x9b31m\x7f\r\x00"
    assert escape_controls("one\ttwo\nthree \u200c") == "one\ttwo\nthree \u200c"
    assert markdown_table(["a", "b"], [["x\n# y", "p | q"]]).splitlines()[2:] == [
        "| x # y | p \\| q |"
    ]


@pytest.mark.parametrize(
    "compress",
    [
        pytest.param(bytes, id="plain"),
        pytest.param(gzip.compress, id="gzip"),
        pytest.param(bz2.compress, id="bzip2"),
        pytest.param(lzma.compress, id="xz"),
    ],
)
@pytest.mark.parametrize("name", ["TEXT.GZ", "pipe"])
def test_archives_are_known_by_their_first_bytes(tmp_path, compress, name):
    data = compress("the cat\n§\xa05\x85\u2028\n".encode()) + compress(b"a\x0b\x0cb\n")
    if name == "pipe":
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_bytes, args=(data,))
        writer.start()
    else:
        (tmp_path / name).write_bytes(data)
    assert list(read_lines(tmp_path / name)) == ["the cat", "§\xa05\x85\u2028", "a\x0b\x0cb"]


def test_long_work_shows_a_bar_and_short_work_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for seconds, shown in ((15.0, False), (1e-9, True)):
        monkeypatch.setattr(progress, "SECONDS_IN_A_LOG", seconds)
        with progress.open_progress("Encoding", total=100) as bar:
            bar.update(25)
            bar.update(25)
        assert ("Encoding:  50%" in sys.stderr.getvalue()) == shown
