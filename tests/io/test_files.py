"""Files are written whole or not at all; damaged JSON and arrays are refused; files are known by
their content.
"""

import errno
import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_nplm.io import files
from keras_nplm.io.arrays import is_mapped, open_archive_to_write
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import (
    read_arrays,
    read_json,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.text import check_is_file, read_text


@pytest.mark.parametrize(
    "number, kind", [(errno.ENOSPC, RunError), (errno.EROFS, InputError), (None, KeyError)]
)
def test_a_failed_write_keeps_the_old_file(tmp_path, number, kind):
    path = tmp_path / "words.txt"
    path.write_text("old")
    with pytest.raises(kind), replace_file(path) as temporary:
        temporary.write_text("half")
        raise KeyError if number is None else OSError(number, os.strerror(number))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_two_writers_of_a_file_do_not_share_a_temporary_one(tmp_path):
    """The main threads of two containers have the same number."""
    path = tmp_path / "words.txt"
    with replace_file(path) as one:
        with replace_file(path) as two:
            one.write_text("one")
            two.write_text("two")
        assert path.read_text() == "two"
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.floats(0)),
    )
)
def test_json_is_written_and_read_back(value):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "new", "猫" * 83 + ".json")  # the longest name
        value["a file name"] = "\udcff"  # half a surrogate pair
        write_json(path, value)
        assert read_json(path) == value


def test_links_stay_links_and_the_files_that_they_name_are_replaced(tmp_path):
    disk, run, link = (tmp_path / name for name in ("disk", "run", "link"))
    disk.mkdir()
    run.mkdir()
    link.symlink_to("run")
    (run / "absolute.npz").symlink_to(disk / "absolute.npz")
    (run / "relative.npz").symlink_to("../disk/relative.npz")
    for name in ("absolute", "relative"):
        path = link / f"{name}.npz"
        for number in range(3):
            with lock_directory(link):
                write_arrays(path, {"a": np.array([number])}, keep=link / f"before-{name}.npz")
        assert path.is_symlink() and (disk / path.name).is_file()
        assert read_arrays(path, ["a"])["a"] == 2
        assert read_arrays(link / f"before-{name}.npz", ["a"])["a"] == 1
    assert (len([*disk.iterdir()]), len([*run.iterdir()])) == (2, 4)


@pytest.mark.parametrize("write", [replace_file, lock_directory])
@pytest.mark.parametrize("path", ["a.txt/b", "dangling/b", "new/a\0b", "new/" + "x" * 300])
def test_paths_that_cannot_exist_are_refused_before_the_work(tmp_path, path, write):
    (tmp_path / "a.txt").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    names = sorted(tmp_path.iterdir())
    with pytest.raises(InputError, match="Cannot write .*Fix: "), write(tmp_path / path):
        raise AssertionError
    assert sorted(tmp_path.iterdir()) == names


def test_invalid_json_is_refused(tmp_path, messages):
    path = tmp_path / "a.json"

    def read():
        read_json(path)

    messages.refuse(read)
    for content in (b"[1]", b"{"):
        path.write_bytes(content)
        messages.refuse(read)
    path.write_bytes(b'{"a": ' + b"[" * 500_000 + b"]" * 500_000 + b"}")  # too deep
    with pytest.raises(InputError, match="a.json is not valid JSON .*recursion"):
        read()
    os.truncate(path, (1 << 26) + 1)
    messages.refuse(read)


ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "number": np.array(7),
    "empty": np.zeros(0, np.int64),
    "keys": np.arange(5000, dtype=np.int64) << 32,
    "-inf": np.array([-np.inf]),
    "columns": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "list.0": np.array(1),
    "list.1": np.array([2]),
}


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("write", [write_arrays, lambda path, arrays: np.savez(path, **arrays)])
def test_arrays_are_read_as_they_were_written(tmp_path, write, mapped):
    path = tmp_path / "a.npz"
    write(path, ARRAYS)
    read = read_arrays(path, [*ARRAYS], ["list", "none"], mapped=mapped)
    for name, array in ARRAYS.items():
        for found in (read, np.load(path)):
            np.testing.assert_array_equal(found[name], array, strict=True)
    assert [*map(str, read["list"])] == ["1", "[2]"] and read["none"] == []
    keys = read["keys"]
    if write is write_arrays:
        assert is_mapped(keys) == mapped != keys.flags.writeable
        assert not mapped or keys.ctypes.data % 64 == 0


@pytest.mark.parametrize("mapped", [False, True])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 499), byte=st.integers(0, 255), length=st.integers(0, 500))
def test_a_damaged_archive_is_refused(tmp_path, mapped, place, byte, length):
    path = tmp_path / "a.npz"
    ids = np.arange(20)
    write_arrays(path, {"ids": ids})
    data = bytearray(path.read_bytes())
    content = files.identify_content(path)
    data[place % len(data)] = byte
    path.write_bytes(data[: length if length < len(data) // 2 else len(data)])
    try:
        read = read_arrays(path, ["ids"], mapped=mapped)
    except InputError as error:
        assert "a.npz is not a whole NumPy archive" in str(error)
        assert files.identify_content(path) != content
    else:  # the byte is as before, or tells a date
        np.testing.assert_array_equal(read["ids"], ids, strict=True)


def _write_longer(path):
    with open_archive_to_write(path) as write:
        write("ids", np.dtype(int), (999,), [np.arange(1000)])


@pytest.mark.parametrize("mapped", [False, True])
def test_archives_of_other_content_are_refused(tmp_path, mapped):
    path = tmp_path / "a.npz"
    for write in (
        lambda: np.savez(path, other=np.ones(2)),
        lambda: np.savez(path, ids=np.array([{}], object)),  # it would run code
        lambda: _write_longer(path),
    ):
        write()
        with pytest.raises(InputError, match="a.npz is not a whole NumPy archive"):
            read_arrays(path, ["ids"], mapped=mapped)


def test_a_file_is_identified_by_its_size_and_checksum(tmp_path):
    content = b"the cat" + bytes(1 << 20)
    (tmp_path / "a").write_bytes(content)
    identity = f"1048583 bytes, crc32 {zlib.crc32(content):08x}"
    assert files.identify_content(tmp_path / "a") == identity
    assert files.remove_contents(f"text a ({identity}) b") == "text a b"


def test_only_regular_files_are_read_or_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/null"):
        message = f"{path}: it is a directory, a device or a pipe. Fix: name a regular file"
        with pytest.raises(InputError, match=f"Cannot write {message}"), replace_file(path):
            pass
        with pytest.raises(InputError, match=f"Cannot read {message}"):
            read_text(path)
    check_is_file(tmp_path / "pipe", or_pipe=True)
