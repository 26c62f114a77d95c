"""Download a file, or fail within seconds without a network.

`urllib.request` is imported when it is used: with HTTP and TLS it is a tenth of a command's start.
"""

import hashlib
import shutil
import sys
from pathlib import Path

from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import replace_file

_SECONDS_TO_CONNECT = 5


def check_host(url: str, name: str) -> None:
    """Refuse a download within seconds if the host of its URL does not answer: TFDS would retry for
    minutes.
    """
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(
            urllib.request.Request(url, method="HEAD"), timeout=_SECONDS_TO_CONNECT
        ).close()
    except urllib.error.HTTPError:
        pass  # the host answers, and some hosts refuse HEAD: the download itself decides
    except OSError as error:
        raise _download_error(url, name, error) from error


def download_file(url: str, sha256: str, path: Path) -> None:
    """Download a file to `path`, whole or not at all, and check its sha256."""
    import urllib.request

    print(f"Downloading {path.name} to {path.parent}", file=sys.stderr)
    try:
        response = urllib.request.urlopen(url, timeout=_SECONDS_TO_CONNECT)
    except OSError as error:
        raise _download_error(url, path.name, error) from error
    with response, replace_file(path) as temporary:
        with open(temporary, "wb") as file:
            shutil.copyfileobj(response, file)
        check_sha256(temporary, sha256, url, path)


def check_sha256(path: Path, sha256: str, url: str, name: Path) -> None:
    """Refuse a damaged file; `name` is its name in the error."""
    received = hashlib.sha256(path.read_bytes()).hexdigest()
    if received != sha256:
        raise InputError(
            f"{name} is damaged: its sha256 must be {sha256}. Received: {received}. Fix: delete "
            f"the file and fetch it again from {url}."
        )


def _download_error(url: str, name: str, error: Exception) -> InputError:
    return InputError(
        f"{name} is needed and cannot be downloaded ({summarize_error(error)}). Fix: fetch it from "
        f"{url} and name the directory that holds it with --data-dir."
    )
