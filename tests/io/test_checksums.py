"""Files are known by their content, and read once for it."""

import os

import pytest

from keras_nplm.io.checksums import identify_content
from keras_nplm.io.errors import InputError


def test_a_file_is_identified_by_its_content_and_read_once(tmp_path, monkeypatch):
    path, opened = tmp_path / "text.txt", []
    path.write_bytes(b"the cat")
    before, times = identify_content(path), path.stat()
    path.write_bytes(b"the dog")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = identify_content(path)
    assert before == "7 bytes, crc32 f1136bc8" != after
    monkeypatch.setattr("builtins.open", lambda *args, original=open: opened.append(1) or original(*args))
    monkeypatch.setattr("keras_nplm.io.checksums._SETTLED", -1)  # the file counts as written long ago
    assert [identify_content(path) for _ in range(3)] == [after] * 3 and len(opened) == 1
    path.write_bytes(b"the cat sat")
    assert identify_content(path).startswith("11 bytes") and len(opened) == 2
    with pytest.raises(InputError, match="Cannot read .*none"):
        identify_content(tmp_path / "none")


def test_every_block_of_a_large_file_counts(tmp_path):
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() + bytes(1 << 20))
    assert identify_content(tmp_path / "a") != identify_content(tmp_path / "b")
