"""One process at a time writes an output directory; locks of processes that have ended stop
nobody.
"""

import os
import shutil
import subprocess
import sys
import threading

import pytest

from keras_nplm.io import lock
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import replace_file, write_json
from keras_nplm.io.lock import LockedError, lock_directory

HOLD = """
import sys, time
from keras_nplm.io.lock import lock_directory
with lock_directory(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(600)
"""
MARKER = "filelock/2\npid=4711\nhost=elsewhere\nmode=lease\ntoken=ab\nduration={}\nstart=5\n"


def test_a_killed_process_leaves_no_lock(tmp_path):
    command = [sys.executable, "-c", HOLD, tmp_path / "model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "locked\n"
        message = (
            rf"model is in use by process {holder.pid} on .* Fix: wait until .* "
            r"different "
            r"`--output`"
        )
        with pytest.raises(LockedError, match=message), lock_directory(tmp_path / "model"):
            pass
        holder.kill()
    with lock_directory(tmp_path / "model"):
        pass
    assert not list((tmp_path / "model").iterdir())


@pytest.mark.parametrize("content", [MARKER, ""])
def test_a_lock_without_signs_is_replaced(tmp_path, monkeypatch, content):
    monkeypatch.setattr(lock, "LEASE", 1.0)
    monkeypatch.setattr(lock, "HEARTBEAT", 0.1)
    (tmp_path / ".lock").write_text(content.replace("{}", "1.0"))
    os.utime(tmp_path / ".lock", (0, 0))
    with lock_directory(tmp_path):
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()


def test_a_process_of_another_host_that_gives_signs_is_refused(tmp_path):
    (tmp_path / ".lock").write_text(MARKER.replace("{}", str(lock.LEASE)))
    threading.Timer(0.5, os.utime, [tmp_path / ".lock"]).start()
    with (
        pytest.raises(LockedError, match="is in use by process 4711 on elsewhere"),
        lock_directory(tmp_path),
    ):
        pass


def test_an_error_releases_the_lock(tmp_path):
    with (
        pytest.raises(KeyError),
        lock_directory(tmp_path / "a" / "b"),
        lock_directory(tmp_path / "a" / "b" / "c"),
    ):
        # nested locks are one
        assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == [".lock"]
        raise KeyError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_directory_is_not_written_again(tmp_path, replaced):
    directory = tmp_path / "model"
    with (
        pytest.raises(RunError, match="model was deleted or replaced while"),
        lock_directory(directory),
    ):
        with (
            pytest.raises(RunError, match="deleted or replaced"),
            replace_file(directory / "a.txt") as temporary,
        ):
            shutil.rmtree(directory)
            if replaced:
                directory.mkdir()
                temporary.touch()
        with pytest.raises(RunError, match="deleted or replaced"):
            write_json(directory / "corpus" / "a.json", {})
        raise InputError("not the cause")
    assert not list(tmp_path.iterdir())
