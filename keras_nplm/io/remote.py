"""Remote paths, `gs://` and `s3://`: URLs, errors of an object store, and files downloaded once to a local cache.

The rest of the package reads and writes local files. A remote input becomes a file of the cache here. A remote output
becomes a local directory that `keras_nplm.io.remote_output` uploads.

The file systems are those of fsspec (gcsfs and s3fs), which `etils.epath` uses, too. `epath` itself does not serve:
beside TensorFlow it hands all URLs to `tf.io.gfile`, which has no `s3://` and takes seconds to import.
"""

import contextlib
import errno
import functools
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.extras import import_extra
from keras_nplm.io.files import read_json, replace_file, summarize_error, write_json
from keras_nplm.io.paths import is_remote, output_error

_LIBRARIES = {"gs": ("gcsfs.core", "GCSFileSystem"), "s3": ("s3fs.core", "S3FileSystem")}
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run `aws configure`",
}
_ENDPOINTS = {"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL"}
_VERSION = ("size", "ETag", "etag", "generation", "crc32c")  # fields of an object that tell its content
_SHOWN_BYTES = 1 << 20  # a larger download is announced
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENAMETOOLONG}
WORKING_DIRECTORIES: dict[str, str] = {}  # the URL that each local working directory stands for


def normalise_url(path: str | os.PathLike) -> str:
    """Return the URL of a remote path: two slashes after the scheme, of which pathlib keeps one; none at the end.

    Raises:
        InputError: the URL names no bucket.

    Example:

    >>> normalise_url(Path("s3://bucket/runs/"))
    's3://bucket/runs'
    """
    scheme, _, rest = os.fspath(path).partition(":")
    rest = rest.strip("/")
    if not rest:
        raise InputError(f"A remote path must name a bucket. Received: {os.fspath(path)}. Fix: {scheme}://bucket/name.")
    return f"{scheme}://{rest}"


def open_filesystem(url: str) -> Any:
    """Return the fsspec file system of a URL.

    Raises:
        InputError: its library is not installed.
    """
    return _open_filesystem(url.partition(":")[0])


@functools.cache
def _open_filesystem(scheme: str) -> Any:
    module, name = _LIBRARIES[scheme]
    library = import_extra(module, "remote", f"A {scheme}:// path")
    logging.getLogger("gcsfs").setLevel(logging.CRITICAL)  # it logs the errors that it raises
    return getattr(library, name)(use_listings_cache=False, skip_instance_cache=True)


@contextlib.contextmanager
def explain_errors(url: str, verb: str) -> Iterator[None]:
    """Turn any error of an object store, of its library or of the network into one clear error.

    Args:
        url: what is read or written.
        verb: `"read"` or `"write"`.

    Raises:
        InputError: there is no such bucket or object, or the credentials are absent or refused.
        RunError: the object store cannot be reached, or it failed; or the local disk is full.
    """
    scheme = url.partition(":")[0]
    try:
        yield
    except (InputError, RunError):
        raise
    except FileNotFoundError as error:
        raise InputError(
            f"Cannot {verb} {url}: no such bucket, file or directory. Fix: check the name, and create the bucket."
        ) from error
    except Exception as error:  # botocore, aiohttp and google.auth have classes of their own
        reason = summarize_error(error).rstrip(".")
        if isinstance(error, OSError) and error.errno in _DISK:
            raise output_error(error.filename or url, error) from error
        if isinstance(error, PermissionError) or "Credential" in type(error).__name__ or "Anonymous" in reason:
            raise InputError(f"Cannot {verb} {url} ({reason}). Fix: {_CREDENTIALS[scheme]}.") from error
        raise RunError(
            f"Cannot {verb} {url} ({reason}). Fix: check the network and {_ENDPOINTS[scheme]}, then run the same "
            "command again."
        ) from error


def find_cache() -> Path:
    """Return the directory of downloaded files: `KERAS_NPLM_CACHE`, else `~/.cache/keras_nplm`."""
    cache = os.environ.get("KERAS_NPLM_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or "~/.cache", "keras_nplm"
    )
    return Path(os.path.abspath(os.path.expanduser(cache)))


def name_source(path: str | os.PathLike) -> str:
    """Return the URL of a local file that was downloaded or will be uploaded; other paths are returned as they are.

    Example:

    >>> name_source(find_cache() / "files" / "s3" / "bucket" / "a.txt"), name_source("a.txt")
    ('s3://bucket/a.txt', 'a.txt')
    """
    text = os.fspath(path)
    roots = {os.path.join(find_cache(), "files", scheme): f"{scheme}:/" for scheme in _LIBRARIES} | WORKING_DIRECTORIES
    for directory, url in roots.items():
        if text == directory or text.startswith(directory + os.sep):
            return url + text.removeprefix(directory)
    return text


def expand_pattern(pattern: str) -> list[str]:
    """List the URLs of the files that a remote name or glob matches, in name order.

    Raises:
        InputError: the bucket does not exist or may not be read.
        RunError: the object store cannot be reached.
    """
    url = normalise_url(pattern)
    filesystem = open_filesystem(url)
    with explain_errors(url, "read"):
        if filesystem.isfile(url):
            return [url]
        found = filesystem.glob(url) if re.search(r"[*?[]", url) else []
        return sorted(filesystem.unstrip_protocol(path) for path in found if filesystem.isfile(path))


def fetch_file(path: str | os.PathLike) -> Path:
    """Return the local path of a file: of a remote file its copy in the cache, downloaded if it is absent or changed.

    Args:
        path: a local path, which is returned as it is, or a `gs://` or `s3://` URL.

    Raises:
        InputError: there is no such file, or the credentials are refused.
        RunError: the object store cannot be reached, or the disk is full.
    """
    if not is_remote(path):
        return Path(path)
    url = normalise_url(path)
    filesystem = open_filesystem(url)
    with explain_errors(url, "read"):
        described = filesystem.info(url)
        if described["type"] != "file":
            raise InputError(f"Cannot read {url}: it is a directory. Fix: name a file, or a pattern such as {url}/*.")
        return _update_copy(filesystem, url, described)


def fetch_directory(path: str | os.PathLike, omit: Collection[str] = ()) -> Path:
    """Return the local path of a directory: of a remote one its copy in the cache, brought up to date.

    Args:
        path: a local path, which is returned as it is, or a `gs://` or `s3://` URL.
        omit: endings of files that are not downloaded now. `ensure_local` downloads one when it is read. A copy that
            has changed since is removed.

    Raises:
        InputError: there is no such directory, or the credentials are refused.
        RunError: the object store cannot be reached, or the disk is full.
    """
    if not is_remote(path):
        return Path(path)
    url = normalise_url(path)
    filesystem = open_filesystem(url)
    local = _find_copy(url)
    with explain_errors(url, "read"):
        listed = list_files(filesystem, url)
        if not listed:
            raise FileNotFoundError(url)
        wanted = {name: info for name, info in listed.items() if not name.endswith(tuple(omit))}
        stale = [name for name, info in wanted.items() if not _is_current(f"{url}/{name}", info)]
        _announce(url, sum(wanted[name]["size"] for name in stale))
        for name in stale:
            _update_copy(filesystem, f"{url}/{name}", wanted[name], quiet=True)
        for copy in [copy for copy in local.rglob("*") if copy.is_file()]:
            name = copy.relative_to(local).as_posix()
            if name not in listed or not _is_current(f"{url}/{name}", listed[name]):
                copy.unlink(missing_ok=True)
    return local


def fetch_model(path: str | os.PathLike) -> Path:
    """Return the local path of a model directory; see `fetch_directory`. Its shards are downloaded when they are read.

    Raises:
        InputError: there is no such directory, or the credentials are refused.
        RunError: the object store cannot be reached, or the disk is full.
    """
    return fetch_directory(path, omit=(".ids", "last.npz"))


def ensure_local(path: Path) -> Path:
    """Download a file of the cache that `fetch_directory` omitted. Other paths are returned as they are.

    Raises:
        InputError: there is no such file, or the credentials are refused.
        RunError: the object store cannot be reached, or the disk is full.
    """
    source = name_source(path)
    if is_remote(source) and not path.exists() and str(path) == str(_find_copy(source)):
        fetch_file(source)
    return path


def list_files(filesystem: Any, url: str) -> dict[str, dict]:
    """List the files below a URL: the description of each by its name relative to the URL.

    Raises:
        InputError: a name leads out of the directory.
    """
    prefix = filesystem.unstrip_protocol(url).rstrip("/") + "/"
    listed = {}
    for path, described in filesystem.find(url, detail=True).items():
        full = filesystem.unstrip_protocol(path)
        if described["type"] != "file" or not full.startswith(prefix) or full == prefix:
            continue
        name = full.removeprefix(prefix)
        if not {"", ".", ".."}.isdisjoint(name.split("/")):
            raise InputError(f"A remote name must not have empty parts, . or .. Received: {full}. Fix: rename it.")
        listed[name] = described
    return listed


def download_file(filesystem: Any, url: str, target: Path, size: int) -> None:
    """Download an object to `target`, and check its size.

    Raises:
        RunError: the copy has a different size.
    """
    filesystem.get_file(url, str(target))
    if (received := target.stat().st_size) != size:
        raise RunError(f"{url} must have {size:,} bytes. Received: {received:,}. Fix: run the same command again.")


def upload_file(path: Path) -> None:
    """Upload a file that was written beside the files of a downloaded directory. Nothing is done for other paths.

    Raises:
        InputError: the credentials are refused.
        RunError: the object store cannot be reached.
    """
    url = name_source(path)
    if not is_remote(url):
        return
    filesystem = open_filesystem(url)
    with explain_errors(url, "write"):
        filesystem.put_file(str(path), url)
        write_json(_find_record(url), _describe_version(filesystem.info(url)))


def _find_copy(url: str) -> Path:
    scheme, _, rest = url.partition("://")
    return find_cache().joinpath("files", scheme, *rest.split("/"))


def _find_record(url: str) -> Path:
    scheme, _, rest = url.partition("://")
    return find_cache().joinpath("versions", scheme, *f"{rest}.json".split("/"))


def _describe_version(described: dict) -> dict:
    return {name: str(described[name]) for name in _VERSION if described.get(name) is not None}


def _is_current(url: str, described: dict) -> bool:
    """Whether the cache has this version of an object."""
    copy, record = _find_copy(url), _find_record(url)
    try:
        same = copy.stat().st_size == described["size"] and read_json(record) == _describe_version(described)
    except (OSError, InputError):
        return False
    return same


def _update_copy(filesystem: Any, url: str, described: dict, quiet: bool = False) -> Path:
    """Download an object to the cache, unless the cache has this version."""
    copy = _find_copy(url)
    if not _is_current(url, described):
        if not quiet:
            _announce(url, described["size"])
        with replace_file(copy) as temporary:
            download_file(filesystem, url, temporary, described["size"])
        write_json(_find_record(url), _describe_version(described))
    return copy


def _announce(url: str, size: int) -> None:
    if size > _SHOWN_BYTES:
        print(f"Downloading {url} ({size / 1e6:,.1f} MB) to {find_cache()}.", file=sys.stderr)
