"""Remote files: downloaded once, again after a change; failures are one error with a remedy. The store is moto's S3."""

import gzip
import sys

import pytest

from keras_nplm.data.corpora.text_files import expand_patterns
from keras_nplm.io import remote
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import ensure_local, fetch_directory, fetch_file, name_source, open_filesystem, upload_file


@pytest.fixture
def store(bucket):
    """The file system of the bucket."""
    return open_filesystem(bucket)


@pytest.fixture
def settings(bucket, monkeypatch):
    """Environment variables that are read when the file system is opened, which this test does anew."""
    remote._open_filesystem.cache_clear()
    yield monkeypatch
    remote._open_filesystem.cache_clear()


def _count_downloads(store, monkeypatch) -> list[str]:
    downloaded, get_file = [], store.get_file
    monkeypatch.setattr(store, "get_file", lambda url, path: (downloaded.append(url), get_file(url, path)))
    return downloaded


def test_a_file_is_downloaded_once_and_after_a_change(bucket, store, monkeypatch):
    downloaded, url = _count_downloads(store, monkeypatch), f"{bucket}/a.txt"
    for content, downloads in [(b"the cat", 1), (b"the cat", 1), (b"the dog", 2)]:
        if downloads != len(downloaded):
            store.pipe_file(url, content)
        path = fetch_file(url)
        assert path.read_bytes() == content and name_source(path) == url
        assert len(downloaded) == downloads


def test_globs_list_remote_files_in_name_order(bucket, store):
    for name in ("b.txt.gz", "a.txt.gz", "c.md"):
        store.pipe_file(f"{bucket}/news/{name}", gzip.compress(name.encode()))
    paths = expand_patterns([f"{bucket}/news/*.gz", f"{bucket}/news/a.txt.gz"])
    assert [name_source(path) for path in paths] == [f"{bucket}/news/{name}.txt.gz" for name in "ab"]
    with pytest.raises(InputError, match=r"No such text file: s3://.*/x\*\. Fix: "):
        expand_patterns([f"{bucket}/x*"])


def test_a_directory_is_brought_up_to_date(bucket, store):
    for name in ("config.json", "corpus/train.00000.ids", "old.txt"):
        store.pipe_file(f"{bucket}/run/{name}", name.encode())
    local = fetch_directory(f"{bucket}/run", omit=(".ids",))
    shard = local / "corpus" / "train.00000.ids"
    assert {path.name for path in local.rglob("*.*")} == {"config.json", "old.txt"}
    assert ensure_local(shard).read_bytes() == b"corpus/train.00000.ids"
    store.rm_file(f"{bucket}/run/old.txt")
    store.pipe_file(f"{bucket}/run/corpus/train.00000.ids", b"new ids")
    assert fetch_directory(f"{bucket}/run", omit=(".ids",)) == local
    assert {path.name for path in local.rglob("*.*")} == {"config.json"}  # no shard of a model that was replaced
    assert ensure_local(shard).read_bytes() == b"new ids"


def test_a_file_beside_a_downloaded_model_is_uploaded(bucket, store, tmp_path):
    store.pipe_file(f"{bucket}/run/config.json", b"{}")
    path = fetch_directory(f"{bucket}/run") / "dynamic.json"
    path.write_text("tuned")
    upload_file(path)
    assert store.cat_file(f"{bucket}/run/dynamic.json") == b"tuned"
    (tmp_path / "local.json").touch()
    upload_file(tmp_path / "local.json")
    assert len(store.find(bucket)) == 2


def test_a_truncated_download_is_an_error(bucket, store, monkeypatch):
    store.pipe_file(f"{bucket}/a.txt", b"the cat")
    monkeypatch.setattr(store, "get_file", lambda url, path: open(path, "wb").close())
    with pytest.raises(RunError, match=r"a.txt must have 7 bytes. Received: 0. Fix: "):
        fetch_file(f"{bucket}/a.txt")


def test_names_that_lead_out_of_the_directory_are_refused(bucket, store, monkeypatch):
    store.pipe_file(f"{bucket}/run/a", b"")
    found = {f"{bucket}/run/../../a": {"type": "file", "size": 0}}
    monkeypatch.setattr(store, "find", lambda url, detail: found)
    with pytest.raises(InputError, match=r"A remote name must not have empty parts"):
        fetch_directory(f"{bucket}/run")


def test_an_absent_bucket_file_or_directory_is_named(bucket, store):
    store.pipe_file(f"{bucket}/run/a", b"")
    for fetch, path in [(fetch_file, "a.txt"), (fetch_directory, "a.txt"), (fetch_file, "../absent-bucket/a.txt")]:
        with pytest.raises(InputError, match=rf"Cannot read {bucket}/{path}: no such bucket, file or dir.*Fix: check"):
            fetch(f"{bucket}/{path}")
    with pytest.raises(InputError, match="it is a directory. Fix: name a file"):
        fetch_file(f"{bucket}/run")
    with pytest.raises(InputError, match=r"must name a bucket. Received: s3://\. Fix: s3://bucket/name"):
        fetch_file("s3://")


def test_absent_credentials_are_named(bucket, settings, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        settings.delenv(name)
    settings.setenv("AWS_EC2_METADATA_DISABLED", "true")
    settings.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    with pytest.raises(InputError, match=r"Cannot read s3://.*credentials\). Fix: set AWS_ACCESS_KEY_ID and "):
        fetch_file(f"{bucket}/a.txt")


def test_refused_credentials_are_named(bucket, store, monkeypatch):
    def refuse(url):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(store, "info", refuse)
    with pytest.raises(InputError, match=r"a.txt \(Access Denied\). Fix: set AWS_ACCESS_KEY_ID and "):
        fetch_file(f"{bucket}/a.txt")


def test_a_store_that_does_not_answer_is_a_runtime_failure(bucket, settings):
    settings.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    settings.setenv("AWS_MAX_ATTEMPTS", "1")
    settings.setattr(open_filesystem(bucket), "retries", 1)
    with pytest.raises(RunError, match=r"Cannot read s3://.*Could not connect .*Fix: check the network and AWS_END"):
        fetch_file(f"{bucket}/a.txt")


@pytest.mark.parametrize("scheme, library", [("s3", "s3fs"), ("gs", "gcsfs")])
def test_a_missing_library_is_named(scheme, library, settings):
    settings.setitem(sys.modules, f"{library}.core", None)
    fix = rf"A {scheme}:// path needs {library} .*Fix: `pip install 'keras-nplm\[remote\]'`"
    with pytest.raises(InputError, match=fix):
        fetch_file(f"{scheme}://bucket/a.txt")


def test_outputs_that_must_be_local_say_so():
    with pytest.raises(InputError, match=r"This output must be a local path. Received: s3:/b/x. Fix: "):
        check_output_path(remote.Path("s3://b/x"))
