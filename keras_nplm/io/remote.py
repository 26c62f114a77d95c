"""Remote paths, `gs://` and `s3://`, by fsspec: inputs are downloaded to a cache, outputs uploaded
from a directory.

The rest of the package reads and writes local files. Of two processes that write the same remote
output at the same time, the last writer wins.
"""

import contextlib
import errno
import importlib
import logging
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError, summarize_error
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import replace_file
from keras_nplm.io.paths import STANDARD_INPUT, is_remote, output_error
from keras_nplm.io.standard_input import is_saved_input, save_standard_input

# library, which raises an error where a download is cut short; and how to give credentials
_STORES = {
    "gs": (
        "gcsfs",
        "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    ),
    "s3": ("s3fs", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`"),
}
_SHOWN_BYTES = 1 << 20  # a larger download is announced
_LAST = ("config.json", "metrics.json")  # they say that the other files are complete
CHECKPOINTS = ("last.npz", "previous.npz")  # the newest first; only the run itself reads them
# by local directory: its URL, and the states of files as they are there
_OUTPUTS: dict[str, tuple[str, dict]] = {}
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def open_filesystem(url: str) -> Any:
    """Return the fsspec file system of a URL."""
    scheme = url.partition(":")[0]
    library, _ = _STORES[scheme]
    import_extra(library, f"A {scheme}:// path")
    logging.getLogger(library).setLevel(logging.CRITICAL)  # gcsfs logs the errors that it raises
    return importlib.import_module("fsspec").filesystem(scheme, use_listings_cache=False)


def find_cache() -> Path:
    """Return the directory of downloaded files: `KERAS_NPLM_CACHE`, else `~/.cache/keras_nplm`."""
    return Path(os.environ.get("KERAS_NPLM_CACHE") or "~/.cache/keras_nplm").expanduser().absolute()


def display_url(path: str | os.PathLike) -> str:
    """Return the URL of a local file that was downloaded or will be uploaded, `-` for the copy of
    standard input; other paths are returned as they are.
    """
    text = os.fspath(path)
    if is_saved_input(text):
        return STANDARD_INPUT
    roots = {os.path.join(find_cache(), "files", scheme): f"{scheme}:/" for scheme in _STORES}
    roots |= {directory: url for directory, (url, _) in _OUTPUTS.items()}
    for directory, url in roots.items():
        if text == directory or text.startswith(directory + os.sep):
            return url + text.removeprefix(directory)
    return text


def fetch(path: str | os.PathLike) -> Path:
    """Return the local path of a file or directory: of a remote one its copy in the cache, brought
    up to date, and of `-` a copy of standard input.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return save_standard_input()
    if not is_remote(path):
        return Path(path)
    url = _normalise(path)
    filesystem = open_filesystem(url)
    copy = _find_copy(url)
    with _explain_errors(url, "read"):
        described = filesystem.info(url)
        listed = {"": described} if described["type"] == "file" else _list_files(filesystem, url)
        listed.pop(CHECKPOINTS[0], None)
        stale = {name: info for name, info in listed.items() if not _is_current(copy / name, info)}
        if (size := sum(info["size"] for info in stale.values())) > _SHOWN_BYTES:
            print(f"Downloading {url} ({size / 1e6:,.1f} MB) to {find_cache()}.", file=sys.stderr)
        for name, info in stale.items():
            source = f"{url}/{name}".rstrip("/")
            with replace_file(copy / name) as temporary:
                temporary.touch()  # fails where the cache may not be written
                with _explain_errors(source, "read"):
                    filesystem.get_file(source, str(temporary))
                os.utime(temporary, (_read_version(info),) * 2)
    for file in copy.rglob("[!.]*"):  # others may write .temporary files
        if file.is_file() and file.relative_to(copy).as_posix() not in listed:
            file.unlink(missing_ok=True)
    return copy


def fetch_beside(path: Path, names: Sequence[str]) -> None:
    """Bring the files of these names beside a downloaded file up to date, where the store has
    them; of a local path nothing is done.
    """
    for name in names:
        copy = path.with_name(name)
        url = display_url(copy)
        if not is_remote(url):
            continue
        with _explain_errors(url, "read"):
            try:
                open_filesystem(url).info(url)  # `isfile` would hide a failure
            except FileNotFoundError:
                copy.unlink(missing_ok=True)
                continue
        fetch(url)


def fetch_files(pattern: str) -> list[Path]:
    """Return the local copies of the files that a remote name or glob matches, in name order."""
    url = _normalise(pattern)
    filesystem = open_filesystem(url)
    with _explain_errors(url, "read"):
        found = [url] if filesystem.isfile(url) else filter(filesystem.isfile, filesystem.glob(url))
        return [fetch(_normalise(path, url[:2])) for path in sorted(found)]


@contextlib.contextmanager
def open_output(path: str | os.PathLike, *, resume: bool = False) -> Iterator[Path]:
    """Open an output directory.

    For a remote one, yield a local directory that is uploaded, also after an error.

    Changed files are uploaded in the order in which they were written, config.json and metrics.json
    last. With `resume` a run is downloaded from there; otherwise the directory has an empty file in
    place of each remote one. Hidden files and the checkpoint `previous.npz` are neither downloaded
    nor uploaded nor removed.
    """
    if not is_remote(path):
        yield Path(path)
        return
    with _upload_at_end(_normalise(path), resume) as local:
        yield local


@contextlib.contextmanager
def open_output_file(path: str | os.PathLike) -> Iterator[Path]:
    """Open an output file.

    For a remote one, yield a local path: at the end it is uploaded, with files beside it.
    """
    if not is_remote(path):
        yield Path(path)
        return
    url = _normalise(path)
    parent, _, name = url.rpartition("/")
    if parent.endswith("/"):
        raise InputError(
            f"A remote file must have a bucket and a name. Received: {url}. "
            f"Fix: {parent}/bucket/{name}."
        )
    with _upload_at_end(parent) as local:
        yield local / name


@contextlib.contextmanager
def _upload_at_end(url: str, resume: bool | None = None) -> Iterator[Path]:
    """Yield a temporary directory whose files are uploaded to a URL at the end; None: without the
    files there.

    They stay where they are if the upload fails: they may be the work of hours.
    """
    if resume is None:
        _check_bucket(url)
    find_cache().mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=find_cache()))
    local = directory / url.rpartition("/")[2]
    local.mkdir()
    try:
        _OUTPUTS[str(local)] = url, {} if resume is None else _download_run(url, local, resume)
        yield local
    except BaseException as error:
        try:
            _upload_and_remove(local)
        except (InputError, RunError) as failure:  # the first error is raised
            print(f"Warning: {failure}", file=sys.stderr)
        if isinstance(error, InputError | RunError):
            raise type(error)(str(error).replace(str(local), url)) from error
        raise
    _upload_and_remove(local)


def _check_bucket(url: str) -> None:
    """Refuse a bucket that does not exist, or cannot be reached, before the work of a command."""
    bucket = "/".join(url.split("/")[:3])
    # who may write need not be allowed to list
    with _explain_errors(url, "write"), contextlib.suppress(PermissionError):
        open_filesystem(url).ls(bucket, detail=False)  # `exists` would hide the reason


def _upload_and_remove(local: Path) -> None:
    """Upload a remote output, and remove its local files."""
    try:
        upload(local)
    except (InputError, RunError) as error:
        note = f" The files are kept in {local}." if local.exists() else ""
        raise type(error)(f"{error}{note}") from error
    finally:
        _OUTPUTS.pop(str(local), None)
    shutil.rmtree(local.parent, ignore_errors=True)


def upload(path: Path) -> None:
    """Upload the changed files of a remote output, or a new file of a downloaded model."""
    if str(path) in _OUTPUTS:
        _upload_changes(*_OUTPUTS[str(path)], path)
    elif is_remote(url := display_url(path)) and path.is_file():
        with _explain_errors(url, "write"):
            open_filesystem(url).put_file(str(path), url)


def _download_run(url: str, local: Path, contents: bool) -> dict[str, tuple]:
    """Download a run, or empty files without `contents`. Return the states of all files."""
    filesystem = open_filesystem(url)
    states = {}
    with _explain_errors(url, "read"):
        listed = _list_files(filesystem, url)
        is_run = any(name == "config.json" or name.startswith("corpus/") for name in listed)
        for name in listed:
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            (local / name).touch()
            if contents and is_run:
                filesystem.get_file(f"{url}/{name}", str(local / name))
            states[name] = _read_state(local / name)
    return states


def _upload_changes(url: str, states: dict[str, tuple], local: Path) -> None:
    """Upload the files whose states have changed, and remove the deleted ones."""
    filesystem = open_filesystem(url)
    if not local.is_dir():  # or else all files would count as removed
        raise RunError(
            f"{local} was deleted before its upload. Fix: run the command again, and leave the "
            "directory in place until it ends."
        )
    names = [path.relative_to(local).as_posix() for path in local.rglob("*") if path.is_file()]
    found = {name: _read_state(local / name) for name in names if _travels(name)}
    changed = [name for name, state in found.items() if states.get(name) != state]
    with _explain_errors(url, "write"):
        for name in sorted(
            changed, key=lambda name: (name.rpartition("/")[2] in _LAST, found[name])
        ):
            filesystem.put_file(str(local / name), f"{url}/{name}")
            states[name] = found[name]
        for name in states.keys() - found.keys():
            filesystem.rm_file(f"{url}/{name}")
            del states[name]


def _read_state(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size, state.st_ino


def _normalise(path: str | os.PathLike, scheme: str = "") -> str:
    """The URL of a remote path: two slashes after the scheme, of which pathlib keeps one; none at
    the end.
    """
    parts = re.fullmatch("(?:(gs|s3):)?/*(.*?)/*", os.fspath(path), re.DOTALL)
    assert parts is not None  # each part of the pattern may be empty, so any text matches
    before, rest = parts.groups()
    if not rest:
        raise InputError(
            f"A remote path must name a bucket. Received: {os.fspath(path)}. Fix: "
            f"{before}://bucket/name."
        )
    return f"{before or scheme}://{rest}"


def _find_copy(url: str) -> Path:
    scheme, _, rest = url.partition("://")
    return find_cache().joinpath("files", scheme, *rest.split("/"))


def _list_files(filesystem: Any, url: str) -> dict[str, dict]:
    """Return the descriptions of the files below a URL, by their names relative to it."""
    found = {
        _normalise(path, url[:2]).removeprefix(f"{url}/"): info
        for path, info in filesystem.find(url, detail=True).items()
        # consoles and gcsfuse write an empty object `corpus/` for a folder
        if info["type"] == "file" and not path.endswith("/")
    }
    return {name: info for name, info in found.items() if _travels(name)}


def _travels(name: str) -> bool:
    """Return whether a file of a directory is downloaded, uploaded and removed: a hidden one is
    not, nor is one whose name leads out of the directory.

    Nor is the checkpoint before the last: it stands in for one that was cut, and an object of a
    store is whole or absent.
    """
    _, before_last = CHECKPOINTS
    return name != before_last and all(
        part and not part.startswith(".") for part in name.split("/")
    )


def _is_current(copy: Path, described: dict) -> bool:
    """Return whether the modification time of a copy is the version of the object."""
    return copy.exists() and int(copy.stat().st_mtime) == _read_version(described)


def _read_version(described: dict) -> int:
    """Return a number that changes with the object, below 2^31: some file systems have no later
    time.
    """
    # other fields of S3 differ between a listing and the object alone
    version = described.get("ETag") or described.get("generation") or described
    return zlib.crc32(str((described["size"], version)).encode()) & 0x7FFFFFFF


@contextlib.contextmanager
def _explain_errors(url: str, verb: str) -> Iterator[None]:
    """Turn any error of an object store, of its library or of the network into one clear error."""
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:  # botocore, aiohttp and google.auth have classes of their own
        if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
            note = "KERAS_NPLM_CACHE names its directory."
            raise output_error(find_cache(), error, note) from error
        reason = summarize_error(error).rstrip(".")
        kind: type[InputError | RunError] = InputError
        if isinstance(error, FileNotFoundError):
            reason = "no such bucket, file or directory"
            fix = "check the name"
        elif (
            isinstance(error, PermissionError)
            or "Credential" in type(error).__name__
            or "Anonymous" in reason
        ):
            fix = _STORES[url[:2]][1]
        else:
            kind = RunError
            fix = "check network and disk, and run it again"
        raise kind(f"Cannot {verb} {url} ({reason}). Fix: {fix}.") from error
