"""Download a file, or fail within seconds without a network.

`urllib.request` is imported when it is used: with HTTP and TLS it is a tenth of a command's start.
"""

import contextlib
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import replace_file

_SECONDS_TO_CONNECT = 5
_BLOCK = 1 << 20  # bytes that are read at a time


def check_host(url: str, name: str) -> None:
    """Refuse a download within seconds if the host of its URL does not answer: TFDS would retry for
    minutes.
    """
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, method="HEAD")
    # some hosts answer and refuse HEAD: the download itself decides
    with _explain_errors(url, name), contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(request, timeout=_SECONDS_TO_CONNECT).close()


def download_file(url: str, sha256: str, path: Path) -> None:
    """Download a file to `path`, whole or not at all, and check its sha256."""
    import urllib.request

    print(f"Downloading {path.name} to {path.parent}", file=sys.stderr)
    with _explain_errors(url, path.name):
        response = urllib.request.urlopen(url, timeout=_SECONDS_TO_CONNECT)

    def read_block() -> bytes:
        with _explain_errors(url, path.name):
            return response.read(_BLOCK)

    with response, replace_file(path) as temporary:
        with open(temporary, "wb") as file:
            file.writelines(iter(read_block, b""))
        check_sha256(temporary, sha256, url, path)


def check_sha256(path: Path, sha256: str, url: str, name: Path) -> None:
    """Refuse a damaged file; `name` is its name in the error, and differs for a download."""
    received = hashlib.sha256(path.read_bytes()).hexdigest()
    if received != sha256:
        fix = "delete the file and fetch it again" if path == name else "fetch it"
        raise InputError(
            f"{name} is damaged: its sha256 must be {sha256}. Received: {received}. Fix: {fix} "
            f"from {url}."
        )


@contextlib.contextmanager
def _explain_errors(url: str, name: str) -> Iterator[None]:
    """Turn an error of the network into one clear error."""
    import http.client

    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise InputError(
            f"{name} is needed and cannot be downloaded ({summarize_error(error)}). Fix: fetch it "
            f"from {url} and name the directory that holds it with --data-dir."
        ) from error
