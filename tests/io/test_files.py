"""Files are written whole or not at all; damaged JSON and arrays are refused; files are known by their content."""

import contextlib
import errno
import os

import numpy as np
import pytest

from keras_nplm.io import files
from keras_nplm.io.arrays import open_archive_to_write
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import NUMBER, check_fields, read_arrays, read_json, replace_file, write_arrays, write_json
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
    message = "Cannot write .*words.txt: No space left on device.*free some space"
    with pytest.raises(RunError, match=message), replace_file(path):
        raise OSError(28, "No space left on device")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "path, message",
    [
        ("a.txt/model", r"must not lie below a file\. Received: .*a.txt/model, but .*a.txt is a file or .*\. Fix"),
        ("dangling/a.txt", "must not lie below a file.*dangling is a file or a link to nowhere"),
        ("new/a.txt\0b", r"must not hold a NUL character\. Received: .*a.txt\\x00b'\. Fix"),
        ("new/" + "x" * 300, r"Cannot write .*: File name too long\. Fix: choose a shorter path"),
    ],
)
def test_paths_that_cannot_exist_are_refused(tmp_path, path, message):
    (tmp_path / "a.txt").touch()
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    names = sorted(tmp_path.iterdir())
    for write in (replace_file, lock_directory):
        with pytest.raises(InputError, match=message), write(tmp_path / path):
            raise AssertionError
    assert sorted(tmp_path.iterdir()) == names


@pytest.mark.parametrize("locked", [False, True])
def test_unwritable_directory_is_invalid_input(tmp_path, locked):
    """A directory that was locked was writable: its later change is a failure of the run."""
    with lock_directory(tmp_path) if locked else contextlib.nullcontext():
        error, message = RunError if locked else InputError, "Cannot write .*: Read-only file system. Its old"
        with pytest.raises(error, match=message), replace_file(tmp_path / "a.txt"):
            raise OSError(errno.EROFS, "Read-only file system")


def test_json_is_written_and_read_back(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"name": "Été 猫", "half": "\udcff"})
    assert read_json(tmp_path / "new" / "a.json")["name"] == "Été 猫"


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "a.json is not valid JSON .line 1"),
        (b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}", "nested at most 64 levels deep. Received: more levels"),
        (b'{"a": "' + b"x" * (1 << 24) + b'"}', "a.json must have at most 16,777,216 bytes. Received: 16,777,225. Fix"),
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
        check_fields(tmp_path / "a.json", read_json(tmp_path / "a.json"), {"order": int, "rate": NUMBER})


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


def test_a_file_is_identified_by_its_content_and_read_once(tmp_path, monkeypatch):
    path, opened = tmp_path / "text.txt", []
    path.write_bytes(b"the cat")
    before, times = files.identify_content(path), path.stat()
    path.write_bytes(b"the dog")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = files.identify_content(path)
    assert before == "7 bytes, crc32 f1136bc8" != after
    monkeypatch.setattr("builtins.open", lambda *args, original=open: opened.append(1) or original(*args))
    monkeypatch.setattr(files, "_SETTLED", -1)  # the file counts as written long ago
    assert [files.identify_content(path) for _ in range(3)] == [after] * 3 and len(opened) == 1
    path.write_bytes(b"b" + bytes(1 << 20))
    large = files.identify_content(path)
    path.write_bytes(b"a" + bytes(1 << 20))
    assert files.identify_content(path) != large and len(opened) == 3
    with pytest.raises(InputError, match="Cannot read .*none"):
        files.identify_content(tmp_path / "none")


def _store(array, header=None, change=bytes):
    """Write an array, perhaps with a header of more or fewer numbers, and change the bytes of the file."""

    def write(path):
        with open_archive_to_write(path) as archive:
            archive.write("ids", array.dtype, (header or len(array),), [array])
        path.write_bytes(change(path.read_bytes()))

    return write


IDS = np.arange(1000)
ODD_ARCHIVES = [
    (lambda path: np.savez(path, other=np.ones(2)), "a.npz must hold the arrays ids. Received: other"),
    (_store(np.array([np.nan])), "`ids` in .*a.npz must be below infinity"),
    (lambda path: np.savez(path, ids=np.array(["x"])), "`ids` in .*a.npz must hold numbers"),
    (lambda path: np.savez(path, ids=np.array([{}], object)), "a.npz is not a whole NumPy archive"),
    (lambda path: np.savez_compressed(path, ids=np.zeros(100_000)), "parts of .*a.npz must be stored uncompressed"),
    (_store(IDS, header=999), "(longer|another size) than its header"),
    (_store(IDS, header=1001), "a.npz is not a whole NumPy archive"),
    (_store(IDS, change=lambda data: data[:-9]), "a.npz is not a whole NumPy archive"),
    (_store(IDS, change=lambda data: data[:500] + b"\xff" + data[501:]), "a.npz is not a whole NumPy archive"),
]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("write, message", ODD_ARCHIVES)
def test_odd_and_damaged_archives_are_refused(tmp_path, write, message, mapped):
    write(tmp_path / "a.npz")
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "a.npz", ["ids"], mapped=mapped)


def test_only_regular_files_are_read_or_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind, read in (
        (tmp_path, "a directory", "a directory"),
        (tmp_path / "pipe", "a device or a pipe", "a pipe, which can be"),
        ("/dev/null", "a device or a pipe", "a device"),
    ):
        with pytest.raises(InputError, match=f"must not be {kind}. Received: {path}. Fix"), replace_file(path):
            pass
        with pytest.raises(InputError, match=f"it is {read}"):
            read_text(path)
    check_is_file(tmp_path / "pipe", or_pipe=True)
