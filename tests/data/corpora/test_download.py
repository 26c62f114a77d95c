"""Downloads: a failure is one error that names the URL, and only what has its checksum is kept."""

import hashlib
import http.client
import io
import urllib.request
from unittest.mock import Mock

import pytest

from keras_nplm import InputError, open_corpus
from keras_nplm.data.corpora.download import download_file

URL = "https://host/brown.zip"
MESSAGE = f"brown.zip is needed and cannot be downloaded .*Fix: fetch it from {URL}"


@pytest.mark.parametrize(
    "failure", [TimeoutError("timed out"), http.client.IncompleteRead(b"an archive", 9)]
)
def test_a_broken_download_is_no_fault_of_the_disk(tmp_path, monkeypatch, failure):
    response = io.BytesIO()
    response.read = Mock(side_effect=[b"an archive", failure])
    monkeypatch.setattr(urllib.request, "urlopen", Mock(return_value=response))
    with pytest.raises(InputError, match=MESSAGE):
        download_file(URL, "0" * 64, tmp_path / "brown.zip")
    assert not [*tmp_path.iterdir()]


def test_a_download_is_kept_if_its_checksum_is_right(tmp_path):
    content = b"an archive"
    (tmp_path / "remote.zip").write_bytes(content)
    url = (tmp_path / "remote.zip").as_uri()
    path = tmp_path / "data" / "local.zip"
    with pytest.raises(InputError, match="data/local.zip is damaged: .* Fix: fetch it from file:"):
        download_file(url, "0" * 64, path)
    assert not path.exists()
    download_file(url, hashlib.sha256(content).hexdigest(), path)
    assert path.read_bytes() == content and [*path.parent.iterdir()] == [path]
    (tmp_path / "brown.zip").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="brown.zip is damaged: its sha256 must be 9b27"):
        open_corpus("brown/plain", data_dir=str(tmp_path))
