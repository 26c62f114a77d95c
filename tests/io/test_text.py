"""Files that are no UTF-8 text are named with a remedy; text of unknown origin is harmless on
terminals.
"""

import bz2
import csv
import functools
import gzip
import io
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile

import pytest

from keras_nplm.io import progress
from keras_nplm.io.errors import InputError
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.text import decode, escape_controls, escape_formula, read_lines

ENGLISH = "the cat sat\non the mat\n"


TEXTS = {
    "English": ENGLISH * 9,
    "quotes": "It’s the “book” – …\n" * 3,
    "French": "au café\noù été déjà\n",
    "Russian": "привет\nмир и война\n",
    "Chinese": "我爱你。\n猫坐在垫子上。\n",
    "one accent": "the cat " * 2000 + "début\nsat\n",
}
ENCODINGS = "utf-16 utf-16-le utf-16-be utf-32 utf-32-le latin1 cp1252 koi8-r gb18030".split()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_advised_command_restores_the_text(tmp_path, encoding, text):
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        pytest.skip("the encoding lacks a letter of the text")
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    lines = text.splitlines()
    try:
        assert [*read_lines(path)] == lines  # ASCII
    except InputError as error:
        message = str(error)
        named = re.search(
            r"Fix: name a text file, or convert it, .* `(iconv -f \S+ -t UTF-8)`", message
        )
        if not named:  # no byte says which encoding it is
            assert encoding in ("koi8-r", "gb18030") and "`iconv -f ENCODING -t UTF-8`" in message
            return
        converted = subprocess.run([*named[1].split(), path], capture_output=True, check=True)
        path.write_bytes(converted.stdout)
        assert [*read_lines(path)] == lines


def test_utf8_with_a_wrong_byte_stays_utf8(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("été\nthe cat\n".encode() + b"sat\x92\n")
    with pytest.raises(InputError, match=r"\(byte 17\)\. .* `iconv -c -f UTF-8 -t UTF-8`\.$"):
        [*read_lines(path)]


def _write_tar(path):
    member = tarfile.TarInfo("a.txt")
    member.size = len(ENGLISH)
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(member, io.BytesIO(ENGLISH.encode()))


def _write_zip(path, name="a.txt"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, ENGLISH)


@pytest.mark.parametrize(
    "write, kind, command",
    [
        pytest.param(_write_tar, "a tar archive", "tar -xOf", id="tar.gz"),
        pytest.param(_write_zip, "a zip archive", "unzip -p", id="zip"),
        pytest.param(
            functools.partial(_write_zip, name="[Content_Types].xml"), "Word", "", id="docx"
        ),
    ],
)
def test_an_archive_is_named_and_its_command_extracts_the_text(tmp_path, write, kind, command):
    path = tmp_path / "text"
    write(path)
    with pytest.raises(InputError) as error:
        [*read_lines(path)]
    assert (f"{kind}" in str(error.value) and f"`{command}`" in str(error.value)) or not command
    if command and shutil.which(command.split()[0]):
        extracted = subprocess.run([*command.split(), path], capture_output=True, check=True)
        assert extracted.stdout.decode() == ENGLISH


def test_binary_data_is_named(tmp_path, messages):
    path = tmp_path / "text"
    for data in (
        b"%PDF-1.7\n%\xe2\xe3",
        b"\x89PNG\r\n\x1a\n\0\0",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0",  # of Microsoft Office
        bytes(range(256)) * 9,
    ):
        path.write_bytes(data)
        messages.refuse(lambda: [*read_lines(path)])


def test_the_byte_that_is_not_utf8_is_counted_from_the_start():
    for mark in (b"", b"\xef\xbb\xbf"):
        for data in (mark + b"caf\xe9", mark + b"caf\0"):
            with pytest.raises(InputError, match=rf"\(byte {len(mark) + 3}\)"):
                decode("text.txt", data)


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


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
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
