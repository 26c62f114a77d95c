"""Download a file with the download manager of TensorFlow Datasets, or fail within seconds without a network."""

import contextlib
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file, summarize_error

_SECONDS_TO_CONNECT = 5


def check_host(url: str, name: str) -> None:
    """Refuse a download within seconds if the host of its URL does not answer: TFDS would retry for minutes."""
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=_SECONDS_TO_CONNECT).close()
    except urllib.error.HTTPError:
        pass  # the host answers, and some hosts refuse HEAD: the download itself decides
    except OSError as error:
        raise _download_error(url, name, error) from error


def download_file(url: str, sha256: str, size: int, path: Path) -> None:
    """Download a file to `path`, whole or not at all, and check its sha256. TFDS is imported only here."""
    check_host(url, path.name)
    print(f"Downloading {path.name} ({size / 1e6:,.1f} MB) to {path.parent}", file=sys.stderr)
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.checksums import UrlInfo

    with replace_file(path) as temporary, tempfile.TemporaryDirectory() as directory:
        known = {url: UrlInfo(size=size, checksum=sha256, filename=path.name)}
        try:
            with contextlib.redirect_stdout(sys.stderr):
                manager = tfds.download.DownloadManager(download_dir=directory, url_infos=known)
                downloaded = manager.download(url)
        except tfds.download.download_manager.NonMatchingChecksumError as error:
            raise InputError(f"{path.name} from {url} is damaged: {error}") from error
        except (OSError, tfds.download.DownloadError) as error:
            raise _download_error(url, path.name, error) from error
        shutil.copyfile(downloaded, temporary)


def _download_error(url: str, name: str, error: Exception) -> InputError:
    return InputError(
        f"{name} is needed and cannot be downloaded ({summarize_error(error)}). Fix: fetch it from {url} and name the "
        "directory that holds it with --data-dir."
    )
