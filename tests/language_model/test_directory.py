"""Model directories: locks of a run."""

from keras_nplm.language_model.directory import lock_run


def test_lock_of_a_run_removes_temporary_files_everywhere(tmp_path):
    """SIGKILL cuts files short under temporary names, also those of components and shards."""
    names = (
        ".model.4711.keras",
        "components/1/.ngrams.4711.npz",
        "corpus/.train.00000.4711.ids",
        "logs/.gitignore",
    )
    paths = [tmp_path / name for name in ("config.json", *names)]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with lock_run(tmp_path):
        assert [path for path in paths if path.exists()] == [
            tmp_path / "config.json",
            tmp_path / "logs/.gitignore",
        ]
