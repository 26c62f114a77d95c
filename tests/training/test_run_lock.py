"""The lock of a run removes what killed processes left, and nothing of others."""

import pytest

from keras_nplm import InputError, estimate
from keras_nplm.training.prepare import lock_run


def test_lock_of_a_run_removes_temporary_files_everywhere(tmp_path):
    """SIGKILL cuts files short under temporary names, also those of components and shards."""
    names = (
        ".model.nplm-4711.keras",
        "components/1/.ngrams.nplm-4711.npz",
        "corpus/.train.00000.nplm-4711.ids",
        "logs/.gitignore",
        "logs/.notes.2.swp",
    )
    paths = [tmp_path / name for name in ("config.json", *names)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with lock_run(tmp_path):
        assert [path for path in paths if path.exists()] == [
            tmp_path / "config.json",
            tmp_path / "logs/.gitignore",
            tmp_path / "logs/.notes.2.swp",
        ]


def test_a_refused_directory_keeps_all_its_files(tmp_path, short_corpus):
    names = [".zcompdump-host-5.9", "notes/.draft.2.swp", ".model.nplm-1.keras", "letter.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="exists and is not a model directory"):
        estimate("kneser-ney", short_corpus, tmp_path)
    assert all((tmp_path / name).exists() for name in names)
