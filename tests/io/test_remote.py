"""Remote inputs are downloaded once, outputs uploaded whole and in order; failures are one error
with a remedy.
"""

import contextlib
import errno
import shutil
from pathlib import Path
from unittest.mock import Mock

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import write_arrays, write_json
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import (
    _read_version,
    display_url,
    fetch,
    fetch_beside,
    open_filesystem,
    open_output,
    open_output_file,
    upload,
)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.packages) for name in ("s3", "gs")])
def url(request, monkeypatch, tmp_path):
    """The URL of an empty bucket of moto's S3, or of a file system in memory in place of gs://."""
    if request.param == "s3":
        yield request.getfixturevalue("bucket")
        return
    pytest.importorskip("gcsfs", reason="needs the extra [remote]")
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    fsspec.register_implementation("gs", MemoryFileSystem, clobber=True)
    MemoryFileSystem.store.clear()
    MemoryFileSystem().makedirs("gs://bucket", exist_ok=True)
    yield "gs://bucket"
    fsspec.register_implementation("gs", "gcsfs.GCSFileSystem", clobber=True)


def _list(url) -> list[str]:
    return sorted(
        path.partition(url.partition("//")[2] + "/")[2] for path in open_filesystem(url).find(url)
    )


def test_a_renamed_checkpoint_is_copied_by_the_store(tmp_path, monkeypatch):
    """The store has both checkpoints, and only the new one has travelled."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    store = MemoryFileSystem()
    uploaded = []
    store.store.clear()
    put_file = store.put_file

    def record(source, target):
        uploaded.append(Path(target).name)
        put_file(source, target)

    monkeypatch.setattr(store, "put_file", record)

    def open_store(url):
        return store

    monkeypatch.setattr("keras_nplm.io.remote.open_filesystem", open_store)
    with open_output("gs://bucket/run", resume=True) as local:
        contents = []
        for number in range(3):
            write_arrays(local / "last.npz", {"a": np.array([number])}, keep=local / "previous.npz")
            contents.append((local / "last.npz").read_bytes())
            upload(local)
            assert store.cat_file("gs://bucket/run/last.npz") == contents[-1]
            if number:
                assert store.cat_file("gs://bucket/run/previous.npz") == contents[-2]
    assert uploaded == ["last.npz"] * 3


@pytest.fixture
def memory_store(tmp_path, monkeypatch) -> MemoryFileSystem:
    """A store in memory, which needs no extra, with the bucket gs://bucket."""
    monkeypatch.setenv("KERAS_NPLM_CACHE", str(tmp_path / "cache"))
    store = MemoryFileSystem()
    store.store.clear()
    store.makedirs("gs://bucket", exist_ok=True)
    monkeypatch.setattr("keras_nplm.io.remote.open_filesystem", Mock(return_value=store))
    return store


@pytest.mark.parametrize("error", [None, RunError("The disk is full.")])
def test_files_stay_where_they_are_if_the_upload_fails(memory_store, monkeypatch, capsys, error):
    monkeypatch.setattr(
        memory_store, "put_file", Mock(side_effect=ConnectionError("reset by peer"))
    )
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


def test_local_files_are_removed_after_their_upload(memory_store):
    with open_output_file("gs://bucket/out.txt") as local:
        local.write_text("the cat")
    assert memory_store.cat_file("gs://bucket/out.txt") == b"the cat"
    assert not local.parent.exists() and not local.parent.parent.exists()


@pytest.mark.parametrize(
    "path, message",
    [
        ("gs://absent/out.txt", "Cannot write gs://absent .no such bucket"),
        (
            "gs://out.txt",
            r"must have a bucket and a name. Received: gs://out.txt. Fix: gs://bucket/",
        ),
    ],
)
def test_an_output_without_a_bucket_is_refused_before_the_work(memory_store, path, message):
    with pytest.raises(InputError, match=message), open_output_file(path):
        raise AssertionError


def test_the_reason_of_a_failure_is_told(memory_store, monkeypatch):
    """Not that the bucket or the file is absent."""
    memory_store.pipe_file("gs://bucket/model/vocabulary.txt", b"the")
    memory_store.pipe_file("gs://bucket/model/forms.tsv", b"forms")
    local = fetch("gs://bucket/model/vocabulary.txt")
    fetch_beside(local, ["forms.tsv"])
    failure = Mock(side_effect=ConnectionError("reset by peer"))
    monkeypatch.setattr(memory_store, "ls", failure)
    monkeypatch.setattr(memory_store, "info", failure)
    with pytest.raises(RunError, match="reset by peer"), open_output_file("gs://bucket/out.txt"):
        raise AssertionError
    with pytest.raises(RunError, match="reset by peer"):
        fetch_beside(local, ["forms.tsv"])
    assert local.with_name("forms.tsv").read_bytes() == b"forms"


@pytest.mark.parametrize(
    "failure, kind, message",
    [
        (
            PermissionError("Forbidden"),
            InputError,
            r"read {url} \(Forbidden\). Fix: set GOOGLE_APP",
        ),
        (FileNotFoundError("gone"), InputError, "read {url} .no such bucket, file or directory"),
        (ConnectionError("reset by peer"), RunError, r"read {url} \(reset .* Fix: check network"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            RunError,
            "write .*cache: No space left on device. KERAS_NPLM_CACHE names .* Fix: free some",
        ),
    ],
)
@pytest.mark.parametrize("fails_in", ["a file", "a run"])
def test_a_failed_download_names_the_failing_side(
    memory_store, monkeypatch, failure, kind, message, fails_in
):
    memory_store.pipe_file("gs://bucket/run/config.json", b"{}")
    monkeypatch.setattr(memory_store, "get_file", Mock(side_effect=failure))
    url = "gs://bucket/run/config.json" if fails_in == "a file" else "gs://bucket/run"
    with pytest.raises(kind, match="Cannot " + message.format(url=url)):
        if fails_in == "a file":
            fetch(url)
        else:
            with open_output(url, resume=True):
                raise AssertionError


def test_a_cache_that_cannot_be_written_is_named(memory_store, monkeypatch):
    memory_store.pipe_file("gs://bucket/a.txt", b"the cat")
    refused = Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    monkeypatch.setattr(Path, "touch", refused)
    with pytest.raises(InputError, match="Cannot write .*cache/files/gs/bucket/a.txt: Permission"):
        fetch("gs://bucket/a.txt")


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("error", [None, InputError("refused")])
def test_hidden_remote_files_stay_as_they_are(memory_store, resume, error):
    hidden = [".gitignore", ".git/HEAD", "notebooks/.ipynb_checkpoints/a.ipynb"]
    for name in ("config.json", *hidden):
        memory_store.pipe_file(f"gs://bucket/run/{name}", name.encode())
    with (
        contextlib.suppress(InputError),
        open_output("gs://bucket/run", resume=resume) as local,
    ):
        (local / ".gitignore").write_text("ours")
        if error is not None:
            raise error
    for name in ("config.json", *hidden):
        assert memory_store.cat_file(f"gs://bucket/run/{name}") == name.encode()
    assert _list_names(fetch("gs://bucket/run")) == ["config.json"]


def _list_names(directory: Path) -> list[str]:
    return sorted(
        path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()
    )


def test_a_deleted_directory_removes_nothing_from_the_store(memory_store):
    memory_store.pipe_file("gs://bucket/run/config.json", b"{}")
    with (
        pytest.raises(RunError, match="run was deleted before its upload.*until it ends.$"),
        open_output("gs://bucket/run", resume=True) as local,
    ):
        shutil.rmtree(local)
    assert memory_store.cat_file("gs://bucket/run/config.json") == b"{}"


def test_the_empty_objects_of_folders_are_no_files(url, monkeypatch):
    """Consoles, gcsfuse and several tools write `run/corpus/` as they create a folder."""
    store = open_filesystem(url)
    for name in ("config.json", "corpus/corpus.json"):
        store.pipe_file(f"{url}/run/{name}", name.encode())
    folders = ["run/", "run/corpus/"]
    bucket = url.partition("//")[2]
    find = store.find

    def find_with_folders(*arguments, **options):
        return find(*arguments, **options) | {
            f"{url}/{folder}": {"type": "file", "size": 0} for folder in folders
        }

    if url.startswith("s3"):
        for folder in folders:
            store.call_s3("put_object", Bucket=bucket, Key=folder, Body=b"")
    else:
        monkeypatch.setattr(store, "find", find_with_folders)
    wanted = ["config.json", "corpus/corpus.json"]
    assert _list_names(fetch(f"{url}/run")) == wanted
    with open_output(f"{url}/run", resume=True) as local:
        assert _list_names(local) == wanted
    if url.startswith("s3"):
        found = store.call_s3("list_objects_v2", Bucket=bucket, Prefix="run/")["Contents"]
        kept = {part["Key"].removeprefix("run/") for part in found}
        assert kept == {"", "corpus/", *wanted}


@pytest.mark.packages
def test_a_file_is_not_downloaded_again_with_its_directory(bucket, monkeypatch):
    store = open_filesystem(bucket)
    store.pipe_file(f"{bucket}/run/config.json", b"{}")
    path = fetch(f"{bucket}/run/config.json")
    monkeypatch.setattr(store, "get_file", Mock(side_effect=AssertionError))
    for name in ("run", "run/config.json", "run"):
        fetch(f"{bucket}/{name}")
    assert path.read_bytes() == b"{}"


def test_versions_of_copies_are_times_of_any_file_system():
    for field in ("ETag", "generation", "created"):
        versions = {_read_version({"size": 1, field: str(i)}) for i in range(100)}
        assert len(versions) == 100 and max(versions) < 1 << 31


def test_who_may_not_list_may_write(memory_store, monkeypatch):
    monkeypatch.setattr(memory_store, "ls", Mock(side_effect=PermissionError("list")))
    with open_output_file("gs://bucket/out.txt") as local:
        local.write_text("the cat")
    assert memory_store.cat_file("gs://bucket/out.txt") == b"the cat"


def test_files_beside_a_downloaded_file_are_brought_up_to_date(memory_store):
    for name in ("vocabulary.txt", "spelling.tsv", "forms.tsv"):
        memory_store.pipe_file(f"gs://bucket/model/{name}", name.encode())
    local = fetch("gs://bucket/model/vocabulary.txt")
    names = ["spelling.tsv", "forms.tsv", "sentencepiece.model"]
    fetch_beside(local, names)
    found = {path.name for path in local.parent.iterdir()}
    assert found == {"vocabulary.txt", "spelling.tsv", "forms.tsv"}
    memory_store.rm_file("gs://bucket/model/forms.tsv")
    fetch_beside(local, names)
    assert {path.name for path in local.parent.iterdir()} == {"vocabulary.txt", "spelling.tsv"}


def test_a_file_is_downloaded_once_and_after_a_change(url, monkeypatch):
    store = open_filesystem(url)
    downloaded = []
    get_file = store.get_file

    def record(source, path):
        downloaded.append(source)
        get_file(source, path)

    monkeypatch.setattr(store, "get_file", record)
    for content, downloads in [(b"the cat", 1), (b"the cat", 1), (b"the dog", 2)]:
        if downloads != len(downloaded):
            store.pipe_file(f"{url}/a.txt", content)
        path = fetch(f"{url}/a.txt")
        assert path.read_bytes() == content and display_url(path) == f"{url}/a.txt"
        assert len(downloaded) == downloads


def test_a_directory_is_brought_up_to_date(url, monkeypatch):
    store = open_filesystem(url)
    for name in ("config.json", "corpus/train.00000.ids", "old.txt"):
        store.pipe_file(f"{url}/run/{name}", name.encode())
    store.pipe_file(f"{url}/run2/other", b"")
    found = store.find(f"{url}/run", detail=True)
    # a name that leads out of the cache
    found[f"{url}/run/../../../a"] = {"type": "file", "size": 1}

    def find(*arguments, **options):
        return found

    with monkeypatch.context() as context:
        context.setattr(store, "find", find)
        local = fetch(f"{url}/run")
    store.rm_file(f"{url}/run/old.txt")
    store.pipe_file(f"{url}/run/corpus/train.00000.ids", b"CORPUS/train.00000.ids")
    assert fetch(f"{url}/run") == local
    assert {path.name for path in local.rglob("*.*")} == {"config.json", "train.00000.ids"}
    assert (local / "corpus" / "train.00000.ids").read_bytes() == b"CORPUS/train.00000.ids"


def test_changed_files_are_uploaded_and_config_comes_last(url, monkeypatch):
    store = open_filesystem(url)
    uploaded = []
    put_file = store.put_file

    def record(path, to):
        uploaded.append(to)
        put_file(path, to)

    monkeypatch.setattr(store, "put_file", record)
    with open_output(f"{url}/run/") as local:
        for name in ("metrics.json", "config.json", "z.json", "a.json"):
            write_json(local / name, {})
        (local / ".temporary").touch()
        assert not _list(url) and display_url(local / "a.json") == f"{url}/run/a.json"
        upload(local)
        assert uploaded == [f"{url}/run/{name}.json" for name in ("z", "a", "metrics", "config")]
        write_json(local / "a.json", {"order": 5})
        (local / "z.json").unlink()
    assert uploaded[4:] == [f"{url}/run/a.json"]
    assert _list(f"{url}/run") == ["a.json", "config.json", "metrics.json"]


def test_an_error_keeps_what_was_written_and_a_run_is_downloaded_to_resume(url):
    with (
        pytest.raises(InputError, match=rf"^{url}/run/config.json is bad"),
        open_output(f"{url}/run") as local,
    ):
        write_json(local / "config.json", {"order": 5})
        raise InputError(f"{local}/config.json is bad")
    open_filesystem(url).pipe_file(f"{url}/foreign/big", b"big")
    for path, resume, content in [("run", True, "5"), ("run", False, ""), ("foreign", True, "")]:
        with open_output(f"{url}/{path}", resume=resume) as local:
            assert content in next(local.iterdir()).read_text() and bool(content) == (
                path == "run" and resume
            )
    assert b"5" in open_filesystem(url).cat_file(f"{url}/run/config.json")
    assert open_filesystem(url).cat_file(f"{url}/foreign/big") == b"big"


def test_what_a_failed_download_has_left_is_not_uploaded(url, monkeypatch):
    store = open_filesystem(url)
    store.pipe_file(f"{url}/run/config.json", b"whole")
    monkeypatch.setattr(store, "get_file", Mock(side_effect=OSError("Connection reset")))
    with (
        pytest.raises(RunError, match=r"reset\). Fix: check network"),
        open_output(f"{url}/run", resume=True),
    ):
        raise AssertionError
    assert store.cat_file(f"{url}/run/config.json") == b"whole"


@pytest.mark.packages
def test_failures_are_named(bucket, monkeypatch):
    store = open_filesystem(bucket)
    store.pipe_file(f"{bucket}/a.txt", b"the cat")
    for path in (f"{bucket}/absent", "s3://absent-bucket/a"):
        with pytest.raises(
            InputError,
            match=rf"Cannot read {path} .no such bucket, file or directory.\. Fix: check",
        ):
            fetch(path)
    with pytest.raises(
        InputError, match=r"must name a bucket. Received: s3://\. Fix: s3://bucket/name"
    ):
        fetch("s3://")
    with pytest.raises(
        InputError, match=r"This output must be a local path. Received: s3:/b/x. Fix: "
    ):
        check_output_path(Path("s3://b/x"))
    monkeypatch.setattr(store, "info", Mock(side_effect=PermissionError("Access Denied")))
    with pytest.raises(
        InputError, match=r"a.txt \(Access Denied\). Fix: set AWS_ACCESS_KEY_ID and "
    ):
        fetch(f"{bucket}/a.txt")
