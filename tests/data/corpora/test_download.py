"""Downloads: a failure of the network is one error that names the URL."""

import http.client
import io
import urllib.request
from unittest.mock import Mock

import pytest

from keras_nplm.data.corpora.download import check_host, download_file
from keras_nplm.io.errors import InputError

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


def test_a_host_that_does_not_speak_http_is_named(tmp_path, monkeypatch):
    failure = http.client.BadStatusLine("odd")
    monkeypatch.setattr(urllib.request, "urlopen", Mock(side_effect=failure))
    with pytest.raises(InputError, match=MESSAGE):
        download_file(URL, "0" * 64, tmp_path / "brown.zip")
    with pytest.raises(InputError, match=MESSAGE):
        check_host(URL, "brown.zip")
