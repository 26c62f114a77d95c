"""Remote inputs are downloaded once; outputs are fetched, changed and sent whole and in order; a
failure loses nothing and is one error with a remedy.
"""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.paths import check_output_path
from keras_nplm.io.remote import (
    display_url,
    fetch,
    fetch_beside,
    fetch_files,
    open_filesystem,
    open_output,
    open_output_file,
    upload,
)
from tests.files import read_files


@pytest.fixture(params=["gs", pytest.param("s3", marks=pytest.mark.packages)])
def url(request) -> str:
    """The URL of an empty bucket of a store in memory, or of moto's S3."""
    if request.param == "s3":
        return request.getfixturevalue("bucket")
    request.getfixturevalue("memory_store")
    return "gs://bucket"


def _read_store(url: str) -> dict[str, bytes]:
    store = open_filesystem(url)
    root = store._strip_protocol(url)
    return {name.removeprefix(f"{root}/"): store.cat_file(name) for name in store.find(url)}


# downloads


def test_a_file_is_downloaded_once_and_after_a_change(url):
    store = open_filesystem(url)
    times = []
    for content in (b"the cat", None, b"the dog"):
        if content:
            store.pipe_file(f"{url}/a.txt", content)
        path = fetch(f"{url}/a.txt")
        times.append(path.stat().st_ctime_ns)
        assert path.read_bytes() == store.cat_file(f"{url}/a.txt")
        assert display_url(f"{path} is bad") == f"{url}/a.txt is bad"
    assert times[0] == times[1] < times[2]


def test_files_of_a_glob_and_files_beside_a_file_are_brought_up_to_date(url):
    store = open_filesystem(url)
    for name in ("vocabulary.txt", "forms.tsv", "sub/more.txt", "other.txt"):
        store.pipe_file(f"{url}/model/{name}", name.encode())
    found = fetch_files(f"{url}/model/*")
    assert [path.name for path in found] == ["forms.tsv", "other.txt", "vocabulary.txt"]
    found[0].unlink()
    beside = ["spelling.tsv", "forms.tsv"]
    fetch_beside(found[2], beside)
    assert found[0].read_bytes() == b"forms.tsv"
    store.rm_file(f"{url}/model/forms.tsv")
    fetch_beside(found[2], beside)
    assert not found[0].exists() and found[1].exists()


def test_folders_and_names_that_lead_out_are_no_files(memory_store, monkeypatch, tmp_path):
    """Consoles, gcsfuse and several tools write `run/corpus/` as they create a folder."""
    memory_store.pipe_file("gs://bucket/run/config.json", b"{}")
    found = memory_store.find("gs://bucket/run", detail=True)
    for name in ("run/", "run/corpus/", "run/../../../../../a"):
        found[f"gs://bucket/{name}"] = {"type": "file", "size": 0}
    monkeypatch.setattr(memory_store, "find", Mock(return_value=found))
    assert read_files(fetch("gs://bucket/run")) == {"config.json": b"{}"}
    with open_output("gs://bucket/run") as local:
        assert read_files(local) == {"config.json": b"{}"}
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


# outputs

_SEEN = ["config.json", "manifest.json", "z.txt", "corpus/train.ids", "parts/0/config.json"]
_LEFT_ALONE = [".gitignore", ".git/HEAD", "corpus/.ipynb_checkpoints/a", "previous.npz"]
_FILES = st.dictionaries(st.sampled_from([*_SEEN, *_LEFT_ALONE, "last.npz"]), st.binary(max_size=2))


def _drop(files: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name not in names}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=_FILES, during=_FILES, after=_FILES, fails=st.booleans())
def test_a_directory_is_fetched_changed_and_sent(memory_store, before, during, after, fails):
    """Hidden files and the checkpoint before the last are neither fetched nor sent nor removed."""
    memory_store.store.clear()
    url = "gs://bucket/run"
    before = before | {"config.json": b"{}"}
    for name, content in before.items():
        memory_store.pipe_file(f"{url}/{name}", content)
    fetch(url)
    try:
        with open_output(url) as local:
            assert read_files(local) == _drop(before, *_LEFT_ALONE)
            for files in (during, after):
                for name in read_files(local).keys() - files.keys():
                    (local / name).unlink()
                for name, content in files.items():
                    (local / name).parent.mkdir(parents=True, exist_ok=True)
                    (local / name).write_bytes(content)
                if files is during:
                    upload(local)
            if fails:
                raise InputError(f"{local}/a is bad")
    except InputError as error:
        assert str(error) == f"{url}/a is bad"
    kept = {name: content for name, content in before.items() if name in _LEFT_ALONE}
    assert _read_store(url) == kept | _drop(after, *_LEFT_ALONE)
    if _drop(after, *_LEFT_ALONE, "last.npz"):  # or else there is no such directory
        assert read_files(fetch(url)) == _drop(after, *_LEFT_ALONE, "last.npz")


def test_changed_files_are_sent_and_records_come_last(url, monkeypatch):
    store = open_filesystem(url)
    put = Mock(wraps=store.put_file)
    monkeypatch.setattr(store, "put_file", put)
    with open_output(f"{url}/run/") as local:
        for name in ("manifest.json", "metrics.json", "config.json", "z", "a"):
            (local / name).write_text(name)
        assert not _read_store(url)
        upload(local)
        names = [call.args[1].rpartition("/")[2] for call in put.call_args_list]
        assert names == ["z", "a", "config.json", "metrics.json", "manifest.json"]
        put.reset_mock()
        (local / "a").write_text("new")
        (local / "z").unlink()
    (call,) = put.call_args_list
    assert call.args[1].endswith("/a") and [*read_files(local)] == []
    assert _read_store(f"{url}/run") == read_files(fetch(f"{url}/run"))


def test_an_output_file_is_sent_with_those_beside_it(memory_store, monkeypatch, tmp_path):
    """Who may write need not be allowed to list."""
    monkeypatch.setattr(memory_store, "ls", Mock(side_effect=PermissionError("list")))
    with open_output_file("gs://bucket/out/a.txt") as local:
        local.write_text("the cat")
        local.with_name("b.txt").write_text("beside")
    assert memory_store.cat_file("gs://bucket/out/a.txt") == b"the cat"
    assert memory_store.cat_file("gs://bucket/out/b.txt") == b"beside"
    assert not [*(tmp_path / "cache").iterdir()]


# failures


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


def test_a_deleted_directory_removes_nothing_from_the_store(memory_store):
    memory_store.pipe_file("gs://bucket/run/config.json", b"{}")
    with (
        pytest.raises(RunError, match="run was deleted before its upload.*until it ends.$"),
        open_output("gs://bucket/run") as local,
    ):
        shutil.rmtree(local)
    assert _read_store("gs://bucket/run") == {"config.json": b"{}"}


def _open(context) -> None:
    with context:
        raise AssertionError


def test_names_that_cannot_be_used_are_refused(memory_store, messages):
    memory_store.pipe_file("gs://bucket/foreign/big", b"big")
    messages.refuse(lambda: _open(open_output("gs://bucket/foreign")))
    messages.refuse(lambda: _open(open_output_file("gs://absent/out.txt")))
    messages.refuse(lambda: _open(open_output_file("gs://out.txt")))
    messages.refuse(lambda: fetch("gs://bucket/absent"))
    messages.refuse(lambda: check_output_path(Path("s3://b/x")))


@pytest.mark.parametrize("failure", [PermissionError("Forbidden"), ConnectionError("reset")])
def test_a_failure_is_told_and_leaves_the_store_and_the_copies(
    memory_store, monkeypatch, messages, failure
):
    path = "gs://bucket/run/config.json"
    memory_store.pipe_file(path, b"whole")
    copy = fetch(path)
    kind = InputError if isinstance(failure, PermissionError) else RunError
    with monkeypatch.context() as context:
        context.setattr(memory_store, "info", Mock(side_effect=failure))
        messages.refuse(lambda: fetch_beside(copy, ["config.json"]), kind)
    memory_store.pipe_file(path, b"other")
    monkeypatch.setattr(memory_store, "get_file", Mock(side_effect=failure))
    messages.refuse(lambda: fetch(path), kind)
    messages.refuse(lambda: _open(open_output("gs://bucket/run")), kind)
    assert memory_store.cat_file(path) == b"other" and copy.read_bytes() == b"whole"
