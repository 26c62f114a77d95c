"""One process at a time writes an output directory; locks of dead processes stop nobody."""

import errno
import json
import os
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from keras_nplm.data.worker_pool import run_in_processes
from keras_nplm.io import lock
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import replace_file, write_json
from keras_nplm.io.lock import LockedError, lock_directory

_HOLD = """
import sys
from keras_nplm.io.lock import lock_directory
with lock_directory(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


def _start_holder(directory) -> subprocess.Popen:
    command = [sys.executable, "-c", _HOLD, directory]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "locked\n"
    return holder


def _end(holder: subprocess.Popen) -> None:
    holder.kill()
    holder.communicate()


def _write_lock(directory, **fields) -> None:
    directory.mkdir(exist_ok=True)
    holder = {"host": socket.gethostname(), "process": 4711, "started": "2003-02-01", "command": "train"} | fields
    (directory / ".lock").write_text(json.dumps(holder))


@pytest.fixture
def without_flock(monkeypatch):
    """A file system that has no `flock`."""

    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.fixture
def brief(monkeypatch):
    """A silence of a tenth of a second means that a process is dead."""
    monkeypatch.setattr(lock, "SILENCE", 0.1)


def test_second_process_is_refused_until_the_first_is_killed(tmp_path):
    holder = _start_holder(tmp_path / "model")
    try:
        message = rf"model is in use by process {holder.pid} on {socket.gethostname()} since \d{{4}}-.* Fix: wait until"
        with pytest.raises(LockedError, match=message), lock_directory(tmp_path / "model"):
            raise AssertionError
        assert json.loads((tmp_path / "model" / ".lock").read_text())["process"] == holder.pid
    finally:
        _end(holder)
    assert (tmp_path / "model" / ".lock").exists()  # stale
    with lock_directory(tmp_path / "model"):
        assert json.loads((tmp_path / "model" / ".lock").read_text())["process"] == os.getpid()
    assert not (tmp_path / "model" / ".lock").exists()


def test_second_thread_is_refused(tmp_path):
    errors = []

    def run():
        try:
            with lock_directory(tmp_path):
                pass
        except LockedError as error:
            errors.append(error)

    with lock_directory(tmp_path):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert f"process {os.getpid()} on" in str(errors[0])


def test_nested_locks_of_a_thread_are_one(tmp_path):
    with lock_directory(tmp_path), lock_directory(tmp_path), lock_directory(tmp_path / "corpus"):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert not list(tmp_path.iterdir())


def test_created_directories_go_if_they_stay_empty(tmp_path):
    with pytest.raises(KeyError), lock_directory(tmp_path / "a" / "b"):
        raise KeyError
    assert not list(tmp_path.iterdir())
    with lock_directory(tmp_path / "a" / "b"):
        (tmp_path / "a" / "file").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["file"]


@pytest.mark.parametrize("has_same_number", [False, True])  # as in a container that starts again
def test_lock_of_a_dead_process_is_replaced_without_flock(tmp_path, monkeypatch, without_flock, has_same_number):
    monkeypatch.setattr(lock, "_wait_for_silence", None)  # needs no waiting
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    _write_lock(tmp_path, process=os.getpid() if has_same_number else ended.pid)
    with lock_directory(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()
        write_json(tmp_path / "a.json", {})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_living_process_is_refused_without_flock(tmp_path, monkeypatch, without_flock):
    monkeypatch.setattr(lock, "HEARTBEAT", 0.01)
    with lock_directory(tmp_path):
        monkeypatch.setattr(lock, "_HELD", {})  # as a different process sees it
        monkeypatch.setattr("os.getpid", lambda: 1)
        with pytest.raises(LockedError, match="is in use by process"), lock_directory(tmp_path):
            raise AssertionError
        monkeypatch.undo()


@pytest.mark.parametrize("flock", ["flock", "without_flock"])
def test_silent_process_of_another_host_is_dead(tmp_path, request, capsys, brief, flock):
    if flock == "without_flock":
        request.getfixturevalue(flock)
    _write_lock(tmp_path, host="elsewhere")
    with lock_directory(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["host"] == socket.gethostname()
    assert "sign of the process on elsewhere that locked" in capsys.readouterr().err


def test_process_of_another_host_that_gives_signs_is_refused(tmp_path, monkeypatch):
    _write_lock(tmp_path, host="elsewhere", started="2003-02-01 12:00:00+00:00")
    moments = iter(range(9))
    monkeypatch.setattr(lock, "_read_heartbeat", lambda _: lock.time.time() + next(moments))
    message = "is in use by process 4711 on elsewhere since 2003-02-01 .*train.*choose a different `--output`"
    with pytest.raises(LockedError, match=message), lock_directory(tmp_path):
        raise AssertionError


def test_abandoned_lock_needs_no_waiting(tmp_path, capsys):
    _write_lock(tmp_path, host="elsewhere")
    os.utime(tmp_path / ".lock", (0, 0))
    with lock_directory(tmp_path):
        pass
    assert not capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\xff", b"[1]", b"[" * 4000, b'{"process": {}}'])
def test_damaged_lock_is_replaced(tmp_path, brief, content):
    (tmp_path / ".lock").write_bytes(content)
    with lock_directory(tmp_path):
        assert json.loads((tmp_path / ".lock").read_text())["process"] == os.getpid()


@pytest.mark.parametrize("limit", [0, 20])
def test_full_disk_leaves_no_lock(tmp_path, limit):
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limits[1]))  # of 20 bytes: a part is written
    try:
        message = "Cannot write .*model: (File too large|No space left on device). Fix: free some space"
        with pytest.raises(RunError, match=message), lock_directory(tmp_path / "model"):
            raise AssertionError
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_file_is_no_output_directory(tmp_path):
    (tmp_path / "model").touch()
    message = f"The output directory must not be a file. Received: {tmp_path}/model. Fix"
    with pytest.raises(InputError, match=message), lock_directory(tmp_path / "model"):
        raise AssertionError


def test_link_in_place_of_the_lock_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("text")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / ".lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError, match="Cannot write .*model"), lock_directory(tmp_path / "model"):
        pass
    (tmp_path / "model" / ".lock").unlink()
    os.mkfifo(tmp_path / "model" / ".lock")
    with pytest.raises(InputError, match="must be a regular file"), lock_directory(tmp_path / "model"):
        pass
    assert (tmp_path / "precious").read_text() == "text"


@pytest.mark.parametrize("replaced", [False, True])
def test_deleted_directory_is_not_written_again(tmp_path, replaced):
    directory = tmp_path / "model"
    with pytest.raises(RunError, match="model was deleted or replaced while"), lock_directory(directory):
        write_json(directory / "a.json", {})
        shutil.rmtree(directory)
        if replaced:
            with pytest.MonkeyPatch.context() as context:
                context.setattr(lock, "_HELD", {})  # as a different process sees it
                with lock_directory(directory):
                    write_json(directory / "b.json", {})
        with pytest.raises(RunError, match="deleted or replaced"):
            write_json(directory / "corpus" / "a.json", {})
        raise InputError("not the cause")
    assert [path.name for path in tmp_path.rglob("*")] == (["model", "b.json"] if replaced else [])


def test_directory_deleted_during_a_write_is_noticed(tmp_path):
    with (
        pytest.raises(RunError, match="deleted or replaced"),
        lock_directory(tmp_path / "model"),
        replace_file(tmp_path / "model" / "a.txt") as temporary,
    ):
        shutil.rmtree(tmp_path / "model")
        (tmp_path / "model").mkdir()
        temporary.touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["model"]  # of a different process, perhaps


class WriteInWorker:
    """A task for `run_in_processes` that deletes a directory and then writes into it."""

    def __init__(self, directory: str):
        self._directory = directory

    def __call__(self, name: str) -> dict:
        shutil.rmtree(self._directory, ignore_errors=True)
        write_json(os.path.join(self._directory, "corpus", name), {})
        return {}

    def finish(self) -> dict:
        return {}


def test_worker_processes_do_not_write_a_deleted_directory_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *sys.path]))
    items, options = [{"name": "a"}, {"name": "b"}], {"directory": str(tmp_path / "model")}
    with pytest.raises(RunError, match="model was deleted or replaced"), lock_directory(tmp_path / "model"):
        list(run_in_processes("test_lock:WriteInWorker", options, items, processes=2))
    assert not (tmp_path / "model").exists()
