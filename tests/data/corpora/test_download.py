import hashlib
import urllib.error
import urllib.request

import pytest

from keras_nplm import InputError, open_corpus
from keras_nplm.data.corpora.download import download_file


@pytest.mark.parametrize("name, file", [("brown/plain", "brown.zip"), ("tfds:tiny_shakespeare", "input.txt")])
def test_without_a_network_the_error_names_url_and_data_dir(tmp_path, monkeypatch, name, file):
    def no_network(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path / "prepared"))
    with pytest.raises(InputError, match=f"{file} is needed .*no network.*fetch it from http.*--data-dir"):
        open_corpus(name, data_dir=str(tmp_path))


def test_a_download_is_kept_if_its_checksum_is_right(tmp_path):
    content = b"an archive"
    (tmp_path / "remote.zip").write_bytes(content)
    url, path = (tmp_path / "remote.zip").as_uri(), tmp_path / "data" / "local.zip"
    with pytest.raises(InputError, match="data/local.zip is damaged: .* fetch it again from file:"):
        download_file(url, "0" * 64, path)
    assert not path.exists()
    download_file(url, hashlib.sha256(content).hexdigest(), path)
    assert path.read_bytes() == content and [*path.parent.iterdir()] == [path]
    with pytest.raises(InputError, match="other.zip is needed and cannot be downloaded .*No such file.* --data-dir"):
        download_file(url.replace("remote", "other"), "0" * 64, tmp_path / "other.zip")
