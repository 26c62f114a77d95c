import contextlib
import errno
import io
import os
import shutil
import zipfile

import numpy as np
import pytest

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import (
    NUMBER,
    check_fields,
    check_is_file,
    open_archive,
    read_arrays,
    read_json,
    read_text,
    replace_file,
    write_arrays,
    write_json,
)
from keras_nplm.io.lock import lock_directory


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


def test_directories_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, message in ((tmp_path, "a directory"), (tmp_path / "pipe", "a device or a pipe")):
        message = f"must not be {message}. Received: {path}. Fix"
        with pytest.raises(InputError, match=message), replace_file(path):
            pass
    with (
        pytest.raises(InputError, match="must not lie below a file.*pipe is a file"),
        replace_file(tmp_path / "pipe" / "file"),
    ):
        pass


@pytest.mark.parametrize(
    "path, message",
    [
        ("a.txt/model", r"must not lie below a file\. Received: .*a.txt/model, but .*a.txt is a file\. Fix"),
        ("new/a.txt\0b", r"must not hold a NUL character\. Received: .*a.txt\\x00b'\. Fix"),
        ("new/" + "x" * 300, r"Cannot write .*: File name too long\. Fix: choose a shorter path"),
        ("new/" * 2000, r"Cannot write .*: File name too long"),
        ("circle/a.txt", r"Cannot write .*circle/a.txt: Too many levels of symbolic links\. Fix: check the path"),
        ("dangling/a.txt", r"Cannot write .*dangling/a.txt: the target of the link .*dangling does not exist\. Fix"),
    ],
)
def test_paths_that_cannot_exist_are_refused(tmp_path, path, message):
    (tmp_path / "a.txt").touch()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "xyz").touch()
    names = sorted(tmp_path.iterdir())
    write_json(tmp_path / "missing" / "xyz" / "a.json", {})  # not below the file xyz
    shutil.rmtree(tmp_path / "missing")
    with pytest.raises(InputError, match=message), replace_file(tmp_path / path):
        raise AssertionError
    with pytest.raises(InputError, match=message), lock_directory(tmp_path / path):
        raise AssertionError
    assert sorted(tmp_path.iterdir()) == names


def test_temporary_file_that_cannot_be_removed_hides_no_error(tmp_path, monkeypatch):
    """On a read-only file system `unlink` fails even if the file is absent."""

    def unlink(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.unlink", unlink)
    with pytest.raises(KeyError), replace_file(tmp_path / "a.txt"):
        raise KeyError


@pytest.mark.parametrize("locked", [False, True])
def test_unwritable_directory_is_invalid_input(tmp_path, locked):
    """A directory that was locked was writable: its later change is a failure of the run."""
    with contextlib.ExitStack() as stack:
        if locked:
            stack.enter_context(lock_directory(tmp_path))
        error, message = RunError if locked else InputError, "Cannot write .*: Read-only file system. Its old"
        with pytest.raises(error, match=message), replace_file(tmp_path / "a.txt"):
            raise OSError(errno.EROFS, "Read-only file system")


def test_json_is_written_and_read_back(tmp_path):
    value = {"name": "Été 猫", "half": "\udcff", "numbers": [1, 2.5, None]}
    write_json(tmp_path / "new" / "a.json", value)
    assert read_json(tmp_path / "new" / "a.json")["name"] == "Été 猫"


@pytest.mark.parametrize(
    "content, message",
    [
        (b"{", "a.json is not valid JSON .line 1"),
        (b"[" * 100_000, "a.json must be nested at most 64 levels deep"),
        (
            b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}",
            "a.json must be nested at most 64 levels deep. Received: more levels",
        ),
        (b'{"a": "' + b"x" * (1 << 24) + b'"}', "a.json must have at most 16,777,216 bytes. Received: 16,777,225. Fix"),
        (b"[1]", "must hold a JSON object. Received: list"),
        (b"\xff", r"a.json is not UTF-8 text \(byte 0\)"),
        (None, "Cannot read .*a.json: No such file"),
    ],
)
def test_invalid_json_is_refused(tmp_path, content, message):
    if content is not None:
        (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_json(tmp_path / "a.json")


@pytest.mark.parametrize(
    "fields, message",
    [
        ([], "a.json must hold an object with order, rate. Received: \\[\\]"),
        ({"rate": 1}, "a.json must have the field 'order'. Received: \\['rate'\\]"),
        ({"order": True, "rate": 1}, "`order` in a.json must be an integer. Received: True"),
        ({"order": 1 << 70, "rate": 1}, "`order` in a.json must be an integer"),
        ({"order": 5, "rate": float("nan")}, "`rate` in a.json must be a number. Received: nan"),
        ({"order": "x" * 999, "rate": 1}, "Received: 'xxx.{50,60}…"),
    ],
)
def test_fields_of_a_wrong_type_are_refused(fields, message):
    with pytest.raises(InputError, match=message):
        check_fields("a.json", fields, {"order": int, "rate": NUMBER})
    check_fields("a.json", {"order": 5, "rate": 1, "more": None}, {"order": int, "rate": NUMBER})


def test_arrays_are_written_and_read_back(tmp_path):
    arrays = {"ids": np.arange(3), "weights": [np.ones((2, 2)), np.array([-np.inf])], "none": []}
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz", ["ids"], ["weights", "none"])
    np.testing.assert_array_equal(found["ids"], arrays["ids"])
    np.testing.assert_array_equal(found["weights"][1], [-np.inf])
    assert len(found["weights"]) == 2 and found["none"] == []


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"other": np.ones(2)}, "a.npz must hold the arrays ids. Received: other"),
        ({"ids": np.array([np.nan])}, "`ids` in .*a.npz must be below infinity"),
        ({"ids": np.array(["x"])}, "`ids` in .*a.npz must hold numbers"),
        ({"ids": np.array([1], ">i4")}, "`ids` in .*a.npz must hold numbers in native byte order"),
        ({"ids": np.array([{}], object)}, "a.npz is not a whole NumPy archive"),
    ],
)
def test_arrays_of_a_wrong_kind_are_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_arrays(tmp_path / "a.npz", ["ids"])


def test_damaged_and_compressed_archives_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"ids": np.arange(1000)})
    whole = path.read_bytes()
    for damaged in (b"", whole[:-9], whole[:500] + b"\xff" + whole[501:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="a.npz is not a whole NumPy archive"):
            read_arrays(path, ["ids"])
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        longer = archive.read("ids.npy") + b"x"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", longer)
    with pytest.raises(InputError, match="ids is longer than its header says"):
        read_arrays(path, ["ids"])
    np.savez_compressed(path, ids=np.zeros(100_000))
    with pytest.raises(InputError, match="parts of .*a.npz must be stored uncompressed"):
        read_arrays(path, ["ids"])
    path.write_bytes(b"x")
    with pytest.raises(zipfile.BadZipFile), open_archive(path):
        pass


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path, "directory"), (tmp_path / "pipe", "pipe, which can be"), ("/dev/null", "device")):
        with pytest.raises(InputError, match=f"it is a {kind}"):
            read_text(path)
    check_is_file(tmp_path / "pipe", or_pipe=True)
