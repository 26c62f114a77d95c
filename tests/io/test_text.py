"""Text files are UTF-8 lines, plain or compressed, and nothing else; text of unknown origin is
harmless on terminals and in tables.
"""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.io.errors import InputError
from keras_nplm.io.markdown import markdown_table
from keras_nplm.io.progress import open_progress
from keras_nplm.io.text import decode, escape_controls, escape_formula, read_lines


@given(
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.binary(max_size=8) | st.text("\ufeffa\0é\r\n", max_size=8).map(str.encode),
)
def test_text_is_utf8_without_nul_and_errors_name_the_first_other_byte(mark, data):
    data = b"a" + data  # not an archive
    try:
        wanted = data.decode("utf-8")
        place = data.find(b"\0")
    except UnicodeDecodeError as error:
        place = error.start
    if place < 0:
        assert decode("a.txt", mark + data) == wanted
        assert decode("a.txt", mark + data, offset=1) == mark.decode() + wanted
        lines = wanted.removesuffix("\n").split("\n")
        assert [*read_lines("a.txt", io.BytesIO(mark + data))] == [s.rstrip("\r") for s in lines]
        return
    with pytest.raises(InputError, match=rf"a.txt is not UTF-8 .*\(byte {len(mark) + place}\)"):
        decode("a.txt", mark + data)
    with pytest.raises(InputError, match="a.txt is not UTF-8 "):
        [*read_lines("a.txt", io.BytesIO(mark + data))]


def test_documents_are_refused(tmp_path, messages):
    path = tmp_path / "text"
    for data in (b"PK\3\4\n\0", b"{\\rtf1\\ansi the cat", b"%PDF-1.7\nthe cat", b"\xffi\0t\0"):
        path.write_bytes(data)
        messages.refuse(lambda: [*read_lines(path)])


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


@pytest.mark.parametrize(
    "word", ["=1+1", "+1", "-cmd|x", "@SUM(1)", '"=1+1"', "'=1", "＝1", '"""@x']
)
def test_cells_are_no_formulas(word):
    ((cell, _),) = csv.reader(io.StringIO(f"{escape_formula(word)}\t3\n"), delimiter="\t")
    assert cell[0] == "'" and cell.endswith(word)
    plain = ["cat", "=", "-", '"', "'s", "x=1", "don't", "日本"]
    assert [*map(escape_formula, plain)] == plain


def test_text_of_unknown_origin_is_shown_as_text():
    assert escape_controls("a\x1b[2J\x9b31m\x7f\r\x00") == r"a\x1b[2J\x9b31m\x7f\r\x00"
    assert escape_controls("one\ttwo\nthree \u200c") == "one\ttwo\nthree \u200c"
    assert markdown_table(["a", "b"], [["x\n# y", "p | q"]]).splitlines()[2:] == [
        "| x # y | p \\| q |"
    ]


@pytest.mark.parametrize("seconds, shown", [(0.01, False), (20.0, True)])
def test_long_work_shows_a_bar_and_short_work_nothing(monkeypatch, seconds, shown):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr("tqdm.std.time", itertools.count(0, seconds).__next__)
    with open_progress("Encoding", total=100) as bar:
        bar.update(50)
    assert ("Encoding:  50%" in sys.stderr.getvalue()) == shown
