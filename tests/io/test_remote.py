"""Remote inputs are downloaded once, outputs uploaded whole and in order; failures are one error
with a remedy.
"""

import contextlib
import errno
import functools
import shutil
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from keras_nplm.io import remote
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import write_arrays, write_json
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import (
    display_url,
    fetch,
    fetch_beside,
    open_output,
    open_output_file,
    upload,
)


@pytest.fixture
def memory_store(tmp_path, monkeypatch) -> MemoryFileSystem:
    """A store in memory, which needs no extra, with the bucket gs://bucket."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    store = MemoryFileSystem()
    store.store.clear()
    store.makedirs("gs://bucket", exist_ok=True)
    monkeypatch.setattr(remote, "open_filesystem", Mock(return_value=store))
    return store


@pytest.fixture(params=["gs", pytest.param("s3", marks=pytest.mark.packages)])
def url(request) -> str:
    """The URL of an empty bucket of a store in memory, or of moto's S3."""
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    request.getfixturevalue("memory_store")
    return "gs://bucket"


@pytest.fixture
def record(monkeypatch):
    """A function that records the objects that a method of a store reads or writes."""

    def record(store, name: str) -> list[str]:
        found = []
        method = getattr(store, name)

        def call(*paths):
            found.append(next(path for path in paths if "://" in path))
            method(*paths)

        monkeypatch.setattr(store, name, call)
        return found

    return record


def _list_names(directory: Path) -> list[str]:
    files = filter(Path.is_file, directory.rglob("*"))
    return sorted(path.relative_to(directory).as_posix() for path in files)


# downloads


def test_a_file_is_downloaded_once_and_after_a_change(url, record):
    store = remote.open_filesystem(url)
    downloaded = record(store, "get_file")
    for content, downloads in [(b"the cat", 1), (b"the cat", 1), (b"the dog", 2)]:
        if downloads != len(downloaded):
            store.pipe_file(f"{url}/a.txt", content)
        path = fetch(f"{url}/a.txt")
        assert path.read_bytes() == content and display_url(path) == f"{url}/a.txt"
        assert len(downloaded) == downloads


def test_a_directory_is_brought_up_to_date(url, monkeypatch, record):
    store = remote.open_filesystem(url)
    for name in ("run/config.json", "run/corpus/train.00000.ids", "run/old.txt", "run2/other"):
        store.pipe_file(f"{url}/{name}", name.encode())
    fetch(f"{url}/run/config.json")
    downloaded = record(store, "get_file")
    found = store.find(f"{url}/run", detail=True)
    # a name that leads out of the cache
    found[f"{url}/run/../../../a"] = {"type": "file", "size": 1}
    with monkeypatch.context() as context:
        context.setattr(store, "find", Mock(return_value=found))
        local = fetch(f"{url}/run")
    if url.startswith("s3"):  # the store in memory has no ETag
        assert f"{url}/run/config.json" not in downloaded
    store.rm_file(f"{url}/run/old.txt")
    store.pipe_file(f"{url}/run/corpus/train.00000.ids", b"CORPUS/train.00000.ids")
    assert fetch(f"{url}/run") == local
    assert _list_names(local) == ["config.json", "corpus/train.00000.ids"]
    assert (local / "corpus" / "train.00000.ids").read_bytes() == b"CORPUS/train.00000.ids"


def test_versions_of_copies_are_times_of_any_file_system():
    for field in ("ETag", "generation", "created"):
        versions = {remote._read_version({"size": 1, field: str(i)}) for i in range(100)}
        assert len(versions) == 100 and max(versions) < 1 << 31


def test_files_beside_a_downloaded_file_are_brought_up_to_date(memory_store):
    names = ["spelling.tsv", "vocabulary.txt"]
    for name in (*names, "forms.tsv"):
        memory_store.pipe_file(f"gs://bucket/model/{name}", name.encode())
    local = fetch("gs://bucket/model/vocabulary.txt")
    beside = ["spelling.tsv", "forms.tsv", "sentencepiece.model"]
    fetch_beside(local, beside)
    assert _list_names(local.parent) == ["forms.tsv", *names]
    memory_store.rm_file("gs://bucket/model/forms.tsv")
    fetch_beside(local, beside)
    assert _list_names(local.parent) == names


def test_the_empty_objects_of_folders_are_no_files(memory_store, monkeypatch):
    """Consoles, gcsfuse and several tools write `run/corpus/` as they create a folder."""
    wanted = ["config.json", "corpus/corpus.json"]
    for name in wanted:
        memory_store.pipe_file(f"gs://bucket/run/{name}", name.encode())
    found = memory_store.find("gs://bucket/run", detail=True)
    for folder in ("run/", "run/corpus/"):
        found[f"gs://bucket/{folder}"] = {"type": "file", "size": 0}
    monkeypatch.setattr(memory_store, "find", Mock(return_value=found))
    assert _list_names(fetch("gs://bucket/run")) == wanted
    with open_output("gs://bucket/run", resume=True) as local:
        assert _list_names(local) == wanted


# uploads


def test_only_the_last_checkpoint_travels(memory_store, record):
    uploaded = record(memory_store, "put_file")
    with open_output("gs://bucket/run", resume=True) as local:
        for number in range(2):
            write_arrays(local / "last.npz", {"a": np.array([number])}, keep=local / "previous.npz")
            upload(local)
            content = (local / "last.npz").read_bytes()
            assert memory_store.cat_file("gs://bucket/run/last.npz") == content
    assert uploaded == ["gs://bucket/run/last.npz"] * 2


def test_changed_files_are_uploaded_and_config_comes_last(url, record):
    store = remote.open_filesystem(url)
    uploaded = record(store, "put_file")
    with open_output(f"{url}/run/") as local:
        for name in ("metrics.json", "config.json", "z.json", "a.json"):
            write_json(local / name, {})
        (local / ".temporary").touch()
        assert not store.find(url) and display_url(local / "a.json") == f"{url}/run/a.json"
        upload(local)
        assert uploaded == [f"{url}/run/{name}.json" for name in ("z", "a", "metrics", "config")]
        write_json(local / "a.json", {"order": 5})
        (local / "z.json").unlink()
    assert uploaded[4:] == [f"{url}/run/a.json"]
    assert _list_names(fetch(f"{url}/run")) == ["a.json", "config.json", "metrics.json"]


def test_who_may_not_list_may_write_and_local_files_are_removed(memory_store, monkeypatch):
    monkeypatch.setattr(memory_store, "ls", Mock(side_effect=PermissionError("list")))
    with open_output_file("gs://bucket/out.txt") as local:
        local.write_text("the cat")
    assert memory_store.cat_file("gs://bucket/out.txt") == b"the cat"
    assert not local.parent.exists() and not local.parent.parent.exists()


@pytest.mark.parametrize("error", [None, RunError("The disk is full.")])
def test_files_stay_where_they_are_if_the_upload_fails(memory_store, monkeypatch, capsys, error):
    failure = ConnectionError("reset by peer")
    monkeypatch.setattr(memory_store, "put_file", Mock(side_effect=failure))
    with pytest.raises(RunError) as caught, open_output_file("gs://bucket/out.txt") as local:
        local.write_text("the work of hours")
        if error is not None:
            raise error
    message = str(caught.value)
    if error is not None:  # the first error is raised, the second one is told
        assert message == "The disk is full."
        message = capsys.readouterr().err
    assert "Cannot write gs://bucket (reset by peer)" in message
    kept = Path(message.strip().rpartition(" The files are kept in ")[2].rstrip("."))
    assert (kept / "out.txt").read_text() == "the work of hours"


def test_an_error_keeps_what_was_written_and_a_run_is_downloaded_to_resume(url):
    with (
        pytest.raises(InputError, match=rf"^{url}/run/config.json is bad"),
        open_output(f"{url}/run") as local,
    ):
        write_json(local / "config.json", {"order": 5})
        raise InputError(f"{local}/config.json is bad")
    store = remote.open_filesystem(url)
    whole = store.cat_file(f"{url}/run/config.json")
    assert b"5" in whole
    store.pipe_file(f"{url}/foreign/big", b"big")
    for path, resume, content in [
        ("run/config.json", True, whole),
        ("run/config.json", False, b""),
        ("foreign/big", True, b""),
    ]:
        directory, _, name = path.partition("/")
        with open_output(f"{url}/{directory}", resume=resume) as local:
            assert (local / name).read_bytes() == content
        assert store.cat_file(f"{url}/{path}") in (whole, b"big")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("error", [None, InputError("refused")])
def test_hidden_remote_files_stay_as_they_are(memory_store, resume, error):
    names = ["config.json", ".gitignore", ".git/HEAD", "notebooks/.ipynb_checkpoints/a.ipynb"]
    for name in names:
        memory_store.pipe_file(f"gs://bucket/run/{name}", name.encode())
    with (
        contextlib.suppress(InputError),
        open_output("gs://bucket/run", resume=resume) as local,
    ):
        (local / ".gitignore").write_text("ours")
        if error is not None:
            raise error
    for name in names:
        assert memory_store.cat_file(f"gs://bucket/run/{name}") == name.encode()
    assert _list_names(fetch("gs://bucket/run")) == ["config.json"]


def test_a_deleted_directory_removes_nothing_from_the_store(memory_store):
    memory_store.pipe_file("gs://bucket/run/config.json", b"{}")
    with (
        pytest.raises(RunError, match="run was deleted before its upload.*until it ends.$"),
        open_output("gs://bucket/run", resume=True) as local,
    ):
        shutil.rmtree(local)
    assert memory_store.cat_file("gs://bucket/run/config.json") == b"{}"


# failures


def _open(context) -> None:
    with context:
        raise AssertionError


def test_names_that_cannot_be_used_are_refused(memory_store, messages):
    messages.refuse(lambda: _open(open_output_file("gs://absent/out.txt")))
    messages.refuse(lambda: _open(open_output_file("gs://out.txt")))
    messages.refuse(lambda: fetch("gs://bucket/absent"))
    messages.refuse(lambda: fetch("gs://"))
    messages.refuse(lambda: check_output_path(Path("s3://b/x")))


@pytest.mark.parametrize(
    "failure, kind",
    [
        pytest.param(PermissionError("Forbidden"), InputError, id="no permission"),
        pytest.param(FileNotFoundError("gone"), InputError, id="no file"),
        pytest.param(ConnectionError("reset by peer"), RunError, id="no connection"),
        pytest.param(OSError(errno.ENOSPC, "No space left on device"), RunError, id="full disk"),
    ],
)
def test_a_failed_download_names_the_failing_side(
    memory_store, monkeypatch, messages, failure, kind
):
    path = "gs://bucket/run/config.json"
    memory_store.pipe_file(path, b"whole")
    monkeypatch.setattr(memory_store, "get_file", Mock(side_effect=failure))
    messages.refuse(functools.partial(fetch, path), kind)
    messages.refuse(lambda: _open(open_output("gs://bucket/run", resume=True)), kind)
    # what the download has left is not uploaded
    assert memory_store.cat_file(path) == b"whole"


def test_the_reason_of_a_failure_is_told(memory_store, monkeypatch, messages):
    """Not that the bucket or the file is absent."""
    memory_store.pipe_file("gs://bucket/model/forms.tsv", b"forms")
    forms = fetch("gs://bucket/model/forms.tsv")
    failure = Mock(side_effect=ConnectionError("reset by peer"))
    monkeypatch.setattr(memory_store, "ls", failure)
    monkeypatch.setattr(memory_store, "info", failure)
    messages.refuse(lambda: _open(open_output_file("gs://bucket/out.txt")), RunError)
    messages.refuse(lambda: fetch_beside(forms, ["forms.tsv"]), RunError)
    assert forms.read_bytes() == b"forms"
