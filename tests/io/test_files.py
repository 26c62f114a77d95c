"""Files are written whole or not at all; damaged JSON and arrays are refused; files are known by
their content.
"""

import errno
import os

import numpy as np
import pytest

from keras_nplm.io import files
from keras_nplm.io.arrays import open_archive_to_write
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    read_arrays,
    read_json,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.io.lock import lock_directory
from keras_nplm.io.text import check_is_file, read_text

ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "number": np.array(7),
    "empty": np.zeros(0, np.int64),
    "keys": np.arange(5000, dtype=np.int64) << 32,
    "-inf": np.array([-np.inf]),
}


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("old")
    with pytest.raises(KeyError), replace_file(path) as temporary:
        temporary.write_text("half")
        raise KeyError
    for kind, number, message in [
        (RunError, errno.ENOSPC, "No space left on device.*unchanged. Fix: free some space"),
        (
            InputError,
            errno.EROFS,
            "Read-only file system.*unchanged. Fix: check the path and its permissions",
        ),
    ]:
        with pytest.raises(kind, match=f"Cannot write .*words.txt: {message}"), replace_file(path):
            raise OSError(number, os.strerror(number))
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "path, message",
    [
        ("a.txt/model", "Not a directory. Fix: check the path"),
        ("dangling/a.txt", "(File exists|No such file).* Fix: check the path"),
        ("new/a.txt\0b", "embedded null byte. Fix: check the path"),
        ("new/" + "x" * 300, "File name too long. Fix: choose a shorter path"),
    ],
)
def test_paths_that_cannot_exist_are_refused(tmp_path, path, message):
    (tmp_path / "a.txt").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    names = sorted(tmp_path.iterdir())
    for write in (replace_file, lock_directory):
        with pytest.raises(InputError, match=f"Cannot write .*: {message}"), write(tmp_path / path):
            raise AssertionError
    assert sorted(tmp_path.iterdir()) == names


def test_json_is_written_and_read_back(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"name": "Été 猫", "half": "\udcff"})
    assert read_json(tmp_path / "new" / "a.json")["name"] == "Été 猫"


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "a.json is not valid JSON .*line 1"),
        (
            b'{"a": ' + b"[" * 500_000 + b"]" * 500_000 + b"}",
            "a.json is not valid JSON .*recursion",
        ),
        (
            b'{"a": "' + b"x" * (1 << 24) + b'"}',
            "a.json must have at most 16,777,216 bytes. Received: 16,777,225. Fix",
        ),
        (b"[1]", "must hold a JSON object. Received: list"),
        (b"\xff", r"a.json is not UTF-8 text \(byte 0\)"),
        (None, "Cannot read .*a.json: No such file"),
        (b'{"rate": 1}', "a.json must have the field 'order'. Received: \\['rate'\\]"),
        (b'{"order": true, "rate": 1}', "`order` in .*a.json must be an integer. Received: True"),
        (b'{"order": 5, "rate": NaN}', "`rate` in .*a.json must be a number. Received: nan"),
        (b'{"rate": 1, "order": "' + b"x" * 999 + b'"}', "Received: 'xxx.{50,60}…"),
    ],
)
def test_invalid_json_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        check_fields(
            tmp_path / "a.json", read_json(tmp_path / "a.json"), {"order": int, "rate": NUMBER}
        )


@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_are_read_as_they_were_written(tmp_path, mapped):
    write_arrays(tmp_path / "a.npz", ARRAYS | {"list": [*ARRAYS.values()], "none": []})
    np.savez(tmp_path / "numpy.npz", **ARRAYS, columns=np.asfortranarray(ARRAYS["matrix"]))
    read = read_arrays(tmp_path / "a.npz", [*ARRAYS], ["list", "none"], mapped=mapped)
    foreign = read_arrays(tmp_path / "numpy.npz", [*ARRAYS, "columns"], mapped=mapped)
    for (name, array), listed in zip(ARRAYS.items(), read["list"], strict=True):
        for found in (read[name], listed, foreign[name], np.load(tmp_path / "a.npz")[name]):
            np.testing.assert_array_equal(found, array, strict=True)
    np.testing.assert_array_equal(foreign["columns"], ARRAYS["matrix"], strict=True)
    keys = read["keys"]
    while isinstance(keys, np.ndarray):
        keys = keys.base
    assert (keys is not None) == mapped and read["none"] == []
    assert not mapped or (read["keys"].ctypes.data % 64 == 0 and not read["keys"].flags.writeable)


def test_a_file_is_identified_by_its_content(tmp_path):
    (tmp_path / "a").write_bytes(b"the cat")
    assert files.identify_content(tmp_path / "a") == "7 bytes, crc32 f1136bc8"
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode() + bytes(1 << 20))
    assert files.identify_content(tmp_path / "a") != files.identify_content(tmp_path / "b")


IDS = np.arange(1000)
NOT_WHOLE = "a.npz is not a whole NumPy archive"
read_or_mapped = pytest.mark.parametrize(
    "mapped", [pytest.param(False, id="read"), pytest.param(True, id="mapped")]
)


@read_or_mapped
@pytest.mark.parametrize(
    "arrays, message",
    [
        pytest.param(
            {"other": np.ones(2)},
            "a.npz must hold the arrays ids. Received: other",
            id="another name",
        ),
        pytest.param(
            {"ids": np.array(["x"])}, "`ids` in .*a.npz must hold native numbers", id="strings"
        ),
        pytest.param({"ids": np.array([{}], object)}, NOT_WHOLE, id="objects"),
    ],
)
def test_odd_arrays_are_refused(tmp_path, arrays, message, mapped):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "a.npz", ["ids"], mapped=mapped)


@read_or_mapped
def test_compressed_arrays_are_refused(tmp_path, mapped):
    np.savez_compressed(tmp_path / "a.npz", ids=np.zeros(100_000))
    with pytest.raises(InputError, match="a.npz must be stored uncompressed"):
        read_arrays(tmp_path / "a.npz", ["ids"], mapped=mapped)


def _store(path, array, length):
    """Write an array whose header has this length."""
    with open_archive_to_write(path) as write:
        write("ids", array.dtype, (length,), [array])


@read_or_mapped
@pytest.mark.parametrize(
    "array, length, message",
    [
        pytest.param(
            np.array([np.nan]), 1, "`ids` in .*a.npz must be below infinity", id="not a number"
        ),
        pytest.param(IDS, 999, "(longer|another size) than its header", id="a short header"),
        pytest.param(IDS, 1001, NOT_WHOLE, id="a long header"),
    ],
)
def test_numbers_that_the_header_denies_are_refused(tmp_path, array, length, message, mapped):
    _store(tmp_path / "a.npz", array, length)
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "a.npz", ["ids"], mapped=mapped)


def _cut(data):
    return data[:-9]


def _change_a_byte(data):
    return data[:500] + b"\xff" + data[501:]


@read_or_mapped
@pytest.mark.parametrize("damage", [_cut, _change_a_byte])
def test_damaged_archives_are_refused(tmp_path, damage, mapped):
    path = tmp_path / "a.npz"
    _store(path, IDS, len(IDS))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=NOT_WHOLE):
        read_arrays(path, ["ids"], mapped=mapped)


def test_only_regular_files_are_read_or_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/null"):
        message = f"{path}: it is a directory, a device or a pipe. Fix: name a regular file"
        with pytest.raises(InputError, match=f"Cannot write {message}"), replace_file(path):
            pass
        with pytest.raises(InputError, match=f"Cannot read {message}"):
            read_text(path)
    check_is_file(tmp_path / "pipe", or_pipe=True)
