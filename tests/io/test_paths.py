"""Output paths that messages propose."""

import pytest

from keras_nplm.io.paths import find_free_path


@pytest.mark.parametrize(
    "path, free",
    [
        pytest.param("new", "new", id="nothing is there"),
        pytest.param("runs/mine", "runs/mine-3", id="a directory and its second name"),
        pytest.param("runs/mine/", "runs/mine-3", id="a slash at the end"),
        pytest.param("runs/v1.0", "runs/v1.0-2", id="a directory with a dot"),
        pytest.param("words.svg", "words-2.svg", id="a file keeps its ending"),
        pytest.param(".", "./model", id="the directory itself"),
    ],
)
def test_a_proposed_path_is_free(tmp_path, monkeypatch, path, free):
    monkeypatch.chdir(tmp_path)
    for name in ("runs/mine", "runs/v1.0"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("runs/mine-2", "words.svg"):
        (tmp_path / name).touch()
    assert find_free_path(path) == free
