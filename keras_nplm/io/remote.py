"""Remote paths, `gs://` and `s3://`, by fsspec: fetch, run, send.

`fetch` brings an input to a cache. `open_output` fetches a directory, yields it as a local one, and
sends what changed. The rest of the package reads and writes local files, whose paths contain the
URL. Of two processes that write the same remote output at the same time, the last writer wins.
"""

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError, summarize_error
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import replace_file
from keras_nplm.io.paths import STANDARD_INPUT, is_remote
from keras_nplm.io.standard_input import is_saved_input, save_standard_input

# these libraries raise an error where a download is cut short
_LIBRARIES = {"gs": "gcsfs", "s3": "s3fs"}
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`",
}
_LARGE_DOWNLOAD = 1 << 20  # bytes; it is announced
# in this order, after all other files: each says that the files before it are complete
_SENT_LAST = ("config.json", "metrics.json", "manifest.json")
CHECKPOINTS = ("last.npz", "previous.npz")  # the newest first; only the run itself reads them
# by local directory of an output: the states of the files that the store has
_sent: dict[Path, dict[str, tuple[int, int, int]]] = {}


def open_filesystem(url: str) -> Any:
    """Return the fsspec file system of a URL."""
    import fsspec

    scheme = url.partition(":")[0]
    library = _LIBRARIES[scheme]
    import_extra(library, f"A {scheme}:// path")
    logging.getLogger(library).setLevel(logging.CRITICAL)  # gcsfs logs the errors that it raises
    return fsspec.filesystem(scheme, use_listings_cache=False)


def _open_directory(url: str) -> Any:
    """Return the file system of the files below a URL, by their names relative to it."""
    from fsspec.implementations.dirfs import DirFileSystem

    return DirFileSystem(url, open_filesystem(url))


def find_cache() -> Path:
    """Return the directory of local copies: `KERAS_NPLM_CACHE`, else `~/.cache/keras_nplm`."""
    return Path(os.environ.get("KERAS_NPLM_CACHE") or "~/.cache/keras_nplm").expanduser().absolute()


def display_url(path: str | os.PathLike) -> str:
    """Return a path, or a message, with URLs in place of local copies, and `-` for the copy of
    standard input.
    """
    text = os.fspath(path)
    if is_saved_input(text):
        return STANDARD_INPUT
    return re.sub(rf"{re.escape(str(find_cache()))}/\w+/(gs|s3)/", r"\1://", text)


def fetch(path: str | os.PathLike) -> Path:
    """Return the local path of a file or directory: of a remote one its copy in the cache, brought
    up to date, and of `-` a copy of standard input.
    """
    if os.fspath(path) == STANDARD_INPUT:
        return save_standard_input()
    if not is_remote(path):
        return Path(path)
    url = _normalise(path)
    copy = _locate(find_cache() / "files", url)
    with _explain_errors(url, "read"):
        described = open_filesystem(url).info(url)
        listed = {"": described} if described["type"] == "file" else _list_files(url)
    listed.pop(CHECKPOINTS[0], None)
    _download(url, copy, listed)
    for file in copy.rglob("[!.]*"):  # others may write .temporary files
        if file.is_file() and file.relative_to(copy).as_posix() not in listed:
            file.unlink(missing_ok=True)
    return copy


def fetch_beside(path: Path, names: Sequence[str]) -> None:
    """Bring the files of these names beside a downloaded file up to date, where the store has
    them; of a local path nothing is done.
    """
    for copy in map(path.with_name, names):
        try:
            fetch(display_url(copy))
        except InputError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            copy.unlink(missing_ok=True)


def fetch_files(pattern: str) -> list[Path]:
    """Return the local copies of the files that a remote name or glob matches, in name order."""
    url = _normalise(pattern)
    filesystem = open_filesystem(url)
    with _explain_errors(url, "read"):
        if filesystem.isfile(url):  # a name may have the characters of a glob
            return [fetch(url)]
        matched = filesystem.glob(url, detail=True)
        files = sorted(name for name, described in matched.items() if described["type"] == "file")
        return [fetch(filesystem.unstrip_protocol(name)) for name in files]


@contextlib.contextmanager
def open_output(path: str | os.PathLike) -> Iterator[Path]:
    """Open an output directory: of a remote one fetch a local copy, which is sent at the end, also
    after an error.

    Changed files are sent in the order in which they were written, those of `_SENT_LAST` at the
    end. Hidden files and the checkpoint `previous.npz` are neither fetched nor sent nor removed.

    Raises:
        InputError: the directory holds files, but no run.
    """
    if not is_remote(path):
        yield Path(path)
        return
    url = _normalise(path)
    with _explain_errors(url, "read"):
        listed = _list_files(url)
    is_run = any(name in _SENT_LAST or name.startswith("corpus/") for name in listed)
    if listed and not is_run:  # it may be larger than the disk
        raise InputError(f"{url} exists and is not a model directory. Fix: choose a new directory.")
    with _send_at_end(url, listed) as local:
        yield local


@contextlib.contextmanager
def open_output_file(path: str | os.PathLike) -> Iterator[Path]:
    """Open an output file: of a remote one yield a local path, which is sent at the end, with the
    files beside it.
    """
    if not is_remote(path):
        yield Path(path)
        return
    parent, _, name = _normalise(path).rpartition("/")
    url = _normalise(parent)
    bucket = "/".join(url.split("/")[:3])
    # a wrong name is refused before the work; who may write need not be allowed to list
    with _explain_errors(url, "write"), contextlib.suppress(PermissionError):
        open_filesystem(url).ls(bucket, detail=False)  # `exists` would hide the reason
    with _send_at_end(url, {}) as local:
        yield local / name


@contextlib.contextmanager
def _send_at_end(url: str, listed: Mapping[str, dict]) -> Iterator[Path]:
    """Yield a local directory with the listed files of a URL, and send its files at the end.

    They stay where they are if that fails: they may be the work of hours.
    """
    find_cache().mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=find_cache()))
    local = _locate(root, url)
    local.mkdir(parents=True)

    def send_and_remove() -> None:
        try:
            upload(local)
        except (InputError, RunError) as error:
            note = f" The files are kept in {local}." if local.exists() else ""
            raise type(error)(f"{error}{note}") from error
        finally:
            _sent.pop(local, None)
        shutil.rmtree(root, ignore_errors=True)

    try:
        _download(url, local, listed)
        _sent[local] = _read_states(local)
        yield local
    except BaseException as error:
        try:
            send_and_remove()
        except (InputError, RunError) as failure:  # the first error is raised
            print(f"Warning: {failure}", file=sys.stderr)
        if isinstance(error, InputError | RunError):
            raise type(error)(display_url(str(error))) from error
        raise
    send_and_remove()


def upload(path: Path) -> None:
    """Send what changed in an open output directory, such as a new checkpoint; or a new file of a
    downloaded model. Of other paths nothing is done.
    """
    url = display_url(path)
    if path in _sent:
        _send_changes(url, path, _sent[path])
    elif is_remote(url) and path.is_file():
        with _explain_errors(url, "write"):
            open_filesystem(url).put_file(str(path), url)


def _send_changes(url: str, local: Path, sent: dict[str, tuple[int, int, int]]) -> None:
    """Send the files whose states have changed, and remove the deleted ones from the store."""
    if not local.is_dir():  # or else all files would count as deleted
        raise RunError(
            f"{local} was deleted before its upload. Fix: run the command again, and leave the "
            "directory in place until it ends."
        )
    store = _open_directory(url)
    found = _read_states(local)

    def order(name: str) -> tuple[int, tuple[int, int, int]]:
        return _SENT_LAST.index(name) if name in _SENT_LAST else -1, found[name]

    with _explain_errors(url, "write"):
        for name in sorted(found, key=order):
            if sent.get(name) != found[name]:
                store.put_file(str(local / name), name)
                sent[name] = found[name]
        for name in sent.keys() - found.keys():
            store.rm_file(name)
            del sent[name]


def _read_states(local: Path) -> dict[str, tuple[int, int, int]]:
    """Return numbers that change with each file below a directory, by its name."""
    states = {}
    for path in local.rglob("*"):
        name = path.relative_to(local).as_posix()
        if path.is_file() and _travels(name):
            state = path.stat()
            states[name] = state.st_mtime_ns, state.st_size, state.st_ino
    return states


def _download(url: str, local: Path, listed: Mapping[str, dict]) -> None:
    """Download the listed files below a URL whose copies are absent or of a different version.

    The modification time of a copy is the version of its object.
    """
    stale = {name: info for name, info in listed.items() if not _is_current(local / name, info)}
    if (size := sum(info["size"] for info in stale.values())) > _LARGE_DOWNLOAD:
        print(f"Downloading {url} ({size / 1e6:,.1f} MB) to {find_cache()}.", file=sys.stderr)
    store = _open_directory(url)
    for name, info in stale.items():
        with replace_file(local / name) as temporary:
            temporary.touch()  # fails where the cache may not be written
            with _explain_errors(f"{url}/{name}".rstrip("/"), "read"):
                store.get_file(name, str(temporary))
            os.utime(temporary, (_read_version(info),) * 2)


def _is_current(copy: Path, info: dict) -> bool:
    return copy.exists() and int(copy.stat().st_mtime) == _read_version(info)


def _read_version(info: dict) -> int:
    """Return a number that changes with the object, below 2^31: some file systems have no later
    time.
    """
    # other fields of S3 differ between a listing and the object alone
    version = info.get("ETag") or info.get("generation") or info
    return zlib.crc32(str((info["size"], version)).encode()) & 0x7FFFFFFF


def _normalise(path: str | os.PathLike) -> str:
    """Return the URL of a remote path: two slashes after the scheme, of which pathlib keeps one;
    none at the end.
    """
    scheme, _, rest = os.fspath(path).partition(":")
    if not rest.strip("/"):
        raise InputError(
            f"A remote path must name a bucket. Received: {os.fspath(path)}. Fix: "
            f"{scheme}://bucket/name."
        )
    return f"{scheme}://{rest.strip('/')}"


def _locate(root: Path, url: str) -> Path:
    """Return the local path of a URL, from which `display_url` reads it."""
    return root.joinpath(*url.split("://"))


def _list_files(url: str) -> dict[str, dict]:
    """Return the descriptions of the files below a URL, by their names relative to it."""
    found = _open_directory(url).find("", detail=True)
    # consoles and gcsfuse write an empty object `corpus/` for a folder: its last part is empty
    return {name: info for name, info in found.items() if info["type"] == "file" and _travels(name)}


def _travels(name: str) -> bool:
    """Return whether a file of a directory is downloaded, uploaded and removed: a hidden one is
    not, nor is one whose name leads out of the directory.

    Nor is the checkpoint before the last: it stands in for one that was cut, and an object of a
    store is whole or absent.
    """
    return name != CHECKPOINTS[1] and all(
        part and not part.startswith(".") for part in name.split("/")
    )


@contextlib.contextmanager
def _explain_errors(url: str, verb: str) -> Iterator[None]:
    """Turn any error of an object store, of its library or of the network into one clear error."""
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:  # botocore, aiohttp and google.auth have classes of their own
        is_absent = isinstance(error, FileNotFoundError)
        reason = "no such bucket or file" if is_absent else summarize_error(error).rstrip(".")
        kind = InputError if isinstance(error, FileNotFoundError | PermissionError) else RunError
        raise kind(
            f"Cannot {verb} {url} ({reason}). Fix: check the name, the network and the disk. For "
            f"the right to {verb} it, {_CREDENTIALS[url[:2]]}."
        ) from error
