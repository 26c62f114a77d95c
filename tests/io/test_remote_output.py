"""Remote outputs: each file is uploaded whole, in order, by one process at a time. The store is moto's S3."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keras_nplm.io import remote_output
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import write_json
from keras_nplm.io.lock import LockedError
from keras_nplm.io.remote import find_cache, name_source, open_filesystem
from keras_nplm.io.remote_output import open_output, open_output_file, refresh_output


@pytest.fixture
def store(bucket):
    """The file system of the bucket."""
    return open_filesystem(bucket)


@pytest.fixture
def brief(monkeypatch):
    """A silence of 0.6 seconds means that a process is dead; a living one gives a sign 20 times a second."""
    monkeypatch.setattr(remote_output, "SILENCE", 0.6)
    monkeypatch.setattr(remote_output, "HEARTBEAT", 0.05)


def _list(store, url) -> list[str]:
    return sorted(path.partition("/")[2] for path in store.find(url))


def _put_lock(store, url, **fields) -> None:
    holder = {"host": "elsewhere", "process": 4711, "started": "2003-02-01", "command": "train"} | fields
    store.pipe_file(f"{url}/.lock", json.dumps(holder).encode())


def test_a_local_output_is_the_path_itself(tmp_path):
    for opened in (open_output, open_output_file):
        with opened(tmp_path / "new") as local:
            assert local == tmp_path / "new"
    assert not list(tmp_path.iterdir())


def test_files_are_uploaded_as_they_are_written(bucket, store):
    with open_output(f"{bucket}/run/") as local:
        assert name_source(local / "a.json") == f"{bucket}/run/a.json"
        (local / "logs").mkdir()
        (local / "logs" / "events").write_text("half")  # by a library, without `replace_file`
        assert _list(store, bucket) == ["run/.lock"]
        write_json(local / "config.json", {})
        assert _list(store, bucket) == ["run/.lock", "run/config.json", "run/logs/events"]
        (local / "logs" / "events").write_text("whole")
        (local / ".temporary").write_text("")
        (local / "config.json").unlink()
    assert _list(store, bucket) == ["run/logs/events"] and store.cat_file(f"{bucket}/run/logs/events") == b"whole"
    assert not list((find_cache() / "work").iterdir())


def test_a_file_that_changes_while_it_is_uploaded_is_uploaded_again(bucket, store, monkeypatch):
    put_file = store.put_file

    def change(path, url):
        put_file(path, url)
        if url.endswith("/events"):
            Path(path).write_text("whole")

    monkeypatch.setattr(store, "put_file", change)
    with open_output(f"{bucket}/run") as local:
        (local / "events").write_text("half")
        write_json(local / "config.json", {})
        assert store.cat_file(f"{bucket}/run/events") == b"half"
    assert store.cat_file(f"{bucket}/run/events") == b"whole"


def test_files_that_complete_others_are_uploaded_last(bucket, store, monkeypatch):
    uploaded, put_file = [], store.put_file
    monkeypatch.setattr(store, "put_file", lambda path, url: (uploaded.append(url), put_file(path, url)))
    names = ["1/saved_model.pb", "1/variables", "config.json", "metrics.json", "model.keras"]
    with open_output(f"{bucket}/run") as local:
        (local / "1").mkdir()
        for name in names:
            (local / name).touch()
    names = [names[i] for i in (1, 4, 0, 2, 3)]
    assert uploaded == [f"{bucket}/run/{name}" for name in names]


def test_an_error_keeps_what_was_written_and_names_the_url(bucket, store):
    with pytest.raises(InputError, match=rf"^{bucket}/run/a.txt is bad"), open_output(f"{bucket}/run") as local:
        (local / "a.txt").write_text("a")
        raise InputError(f"{local}/a.txt is bad")
    assert _list(store, bucket) == ["run/a.txt"]


def test_a_run_is_downloaded_to_resume_and_nothing_else(bucket, store):
    for name in ("corpus/counted.json", "last.npz"):
        store.pipe_file(f"{bucket}/run/{name}", name.encode())
    store.pipe_file(f"{bucket}/foreign/big", b"big")
    with open_output(f"{bucket}/run", resume=True) as local:
        assert (local / "last.npz").read_text() == "last.npz"
    with open_output(f"{bucket}/run") as local:
        assert (local / "last.npz").read_text() == ""
    with open_output(f"{bucket}/foreign", resume=True) as local:
        assert (local / "big").read_text() == ""
    assert store.cat_file(f"{bucket}/foreign/big") == b"big" and store.cat_file(f"{bucket}/run/last.npz") == b"last.npz"


def test_a_worker_downloads_what_the_chief_has_uploaded(bucket, store):
    url = f"{bucket}/run"
    with open_output(url, resume=True, writes=False) as worker, open_output(url, resume=True) as chief:
        write_json(chief / "config.json", {"order": 5})
        (worker / "own.json").touch()
        (worker / "log.txt").write_text("of the worker")
        (chief / "log.txt").write_text("of the chief")
        write_json(chief / "prepared.json", {})
        refresh_output(worker)
        assert (worker / "prepared.json").exists() and (worker / "log.txt").read_text() == "of the worker"
        assert json.loads((worker / "config.json").read_text()) == {"order": 5}
    assert _list(store, bucket) == ["run/config.json", "run/log.txt", "run/prepared.json"]


def test_a_file_is_uploaded_with_those_beside_it(bucket, store):
    with open_output_file(f"{bucket}/out/m.onnx") as target:
        target.write_text("onnx")
        target.with_name("m.onnx.vocabulary.txt").write_text("words")
    assert _list(store, bucket) == ["out/m.onnx", "out/m.onnx.vocabulary.txt"]
    with pytest.raises(InputError), open_output_file(f"{bucket}/out/b.onnx") as target:
        target.write_text("half")
        raise InputError("the model is no network")
    assert len(_list(store, bucket)) == 2
    store.pipe_file(f"{bucket}/run/config.json", b"{}")
    with (
        pytest.raises(InputError, match="run/m.onnx lies in a model directory"),
        open_output_file(f"{bucket}/run/m.onnx"),
    ):
        pass
    with pytest.raises(InputError, match="must lie in a bucket"), open_output_file("s3://m.onnx"):
        pass


def test_an_absent_bucket_is_named(bucket):
    url = "s3://absent-bucket/run"
    with pytest.raises(InputError, match=f"Cannot write {url}: no such bucket"), open_output(url):
        pass


def test_one_process_at_a_time_writes(bucket, store, brief):
    with open_output(f"{bucket}/run"):
        match = f"{bucket}/run is in use by process {os.getpid()} on "
        with pytest.raises(LockedError, match=match), open_output(f"{bucket}/run"):
            pass
        with open_output(f"{bucket}/run2"):
            pass
        code = "import sys; from keras_nplm.io.remote_output import open_output\nwith open_output(sys.argv[1]): pass"
        run = subprocess.run([sys.executable, "-c", code, f"{bucket}/run"], capture_output=True, text=True)
        assert run.returncode and "LockedError" in run.stderr  # it saw a heartbeat
    with open_output(f"{bucket}/run"):
        pass


def test_the_lock_of_a_dead_process_is_replaced(bucket, store, brief, capsys):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    _put_lock(store, f"{bucket}/run", host=socket.gethostname(), process=ended.pid)
    with open_output(f"{bucket}/run"):
        assert capsys.readouterr().err == ""
    _put_lock(store, f"{bucket}/run")
    with open_output(f"{bucket}/run"):
        assert "for a sign of the process on elsewhere that locked" in capsys.readouterr().err
    assert _list(store, bucket) == []


def test_of_two_processes_that_find_no_lock_one_gets_it(bucket, store, brief, monkeypatch, capsys):
    url, read, calls = f"{bucket}/run", store.cat_file, []

    def lose_race(path):
        calls.append(path)
        if len(calls) > 1:
            return read(path)
        _put_lock(store, url)  # by the other process, after this one has seen none
        raise FileNotFoundError

    monkeypatch.setattr(store, "cat_file", lose_race)
    with open_output(url):
        assert "Waiting 1 s for a sign of the process on elsewhere" in capsys.readouterr().err


def test_a_process_whose_lock_was_replaced_uploads_nothing(bucket, store):
    with (
        pytest.raises(RunError, match=f"{bucket}/run was deleted or taken over"),
        open_output(f"{bucket}/run") as local,
    ):
        _put_lock(store, f"{bucket}/run")
        write_json(local / "config.json", {})
    assert _list(store, bucket) == ["run/.lock"]


def test_a_process_does_not_take_back_a_lock_that_was_replaced(bucket, store, brief, monkeypatch):
    read, reads = store.cat_file, []
    monkeypatch.setattr(store, "cat_file", lambda path: (reads.append(path), read(path))[1])
    with open_output(f"{bucket}/run"):
        _put_lock(store, f"{bucket}/run")
        before, end = len(reads), time.monotonic() + 5
        while len(reads) < before + 3 and time.monotonic() < end:  # several signs later
            time.sleep(0.02)
    assert json.loads(read(f"{bucket}/run/.lock"))["host"] == "elsewhere"


def test_a_run_without_metrics_is_locked(bucket, store):
    store.pipe_file(f"{bucket}/run/config.json", b"{}")
    with open_output(f"{bucket}/run", resume=True):
        assert store.exists(f"{bucket}/run/.lock")


def test_a_finished_run_is_read_without_a_lock(bucket, store):
    for name in ("config.json", "metrics.json"):
        store.pipe_file(f"{bucket}/run/{name}", b"{}")
    with open_output(f"{bucket}/run", resume=True):
        assert not store.exists(f"{bucket}/run/.lock")


def test_a_failed_upload_is_one_error(bucket, store, monkeypatch):
    def fail(path, url):
        raise OSError("Connection reset")

    monkeypatch.setattr(store, "put_file", fail)
    match = rf"Cannot write {bucket}/run/config.json \(Connection reset\). Fix: check the network"
    with pytest.raises(RunError, match=match), open_output(f"{bucket}/run") as local:
        write_json(local / "config.json", {})


def test_working_directories_of_dead_processes_are_removed(bucket):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stale, other = (find_cache() / "work" / f"{host}-{ended.pid}-x" for host in (socket.gethostname(), "elsewhere"))
    for directory in (stale, other):
        directory.mkdir(parents=True)
    with open_output(f"{bucket}/run"):
        assert not stale.exists() and other.exists()
