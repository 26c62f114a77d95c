"""Output paths of all commands: invalid, locked, deleted during the run, and finished runs that are
read-only.
"""

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from keras.callbacks import CallbackList

from keras_nplm import RunError, open_corpus, train
from keras_nplm.io.lock import lock_directory

DIRECTORIES = (
    "train --train text.txt --output {output}",
    "prepare --train text.txt --output {output}",
    "ngram --train text.txt --output {output}",
    "ngram --arpa ngrams/model.arpa --output {output}",
    "mix ngrams --uniform --output {output}",
    "adapt ngrams --text text.txt --output {output}",
    "add-words ngrams --text text.txt --output {output}",
    "paper --output {output}",
)
FILES = (
    "export ngrams {output}",
    "export ngrams {output}.arpa",
    "export ngrams {output}.vec",
    "map ngrams {output}.svg",
    "rescore ngrams text.txt --format tsv --output {output}",
)


def _names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}


@pytest.fixture
def refuse(files, run):
    """Function that runs a command with an output, and returns the line that refuses it."""

    def refuse(command: str, output: object = "") -> str:
        words = [word.format(output=output) for word in command.split()]
        return run(*words, status=2).err.splitlines()[-1]

    return refuse


@pytest.mark.parametrize("command", DIRECTORIES + FILES)
def test_invalid_output_path_has_status_2(files, refuse, command):
    messages = {
        "text.txt/sub": "Not a directory. Fix: check the path",
        f"new/{'x' * 300}": "File name too long. Fix: choose a shorter path",
        "new/a\0b": "embedded null byte. Fix: check the path",
    }
    before = _names(files)
    for output, message in messages.items():
        assert message in refuse(command, output)
        assert _names(files) == before
    if command.endswith(" {output}"):
        assert "must be a path. Received: ''. Fix: name a" in refuse(command, "")


@pytest.mark.parametrize("command", DIRECTORIES)
def test_a_text_in_place_of_a_directory_is_not_to_be_deleted(text, refuse, command):
    output = Path(shutil.copy(text, "mine.txt"))
    error = refuse(command, output)
    assert " Fix: " in error and "delete" not in error
    assert output.read_bytes() == text.read_bytes()


def test_advice_names_no_path_that_exists(ngram_directory, refuse):
    shutil.copytree(ngram_directory, "model")
    for name in ("model-2", "notes", "other"):
        Path(name).mkdir()
    for name in ("notes.txt", "other/file", "words.svg"):
        Path(name).touch()
    advice = {
        "mix model --uniform --output model": "choose a new `--output`, such as model-3. Or",
        "ngram --train text.txt --order 2 --output model": "such as model-3, or remove model.",
        "mix model --uniform --output notes.txt": "choose a new `--output`, such as notes-2.",
        "ngram --train text.txt --output other": "choose a new `--output`, such as other-2. Or",
        "ngram --corpus other --output no": "`keras-nplm prepare --output other-2`, and name",
        "map model words.png": "name a file such as words-2.svg.",
    }
    for command, message in advice.items():
        assert message in refuse(command)


def test_directory_in_use_has_status_2(files, refuse, monkeypatch):
    monkeypatch.setattr("keras_nplm.io.lock.HEARTBEAT", 0.1)
    output = files / "output"
    with ThreadPoolExecutor(1) as different_thread:
        lock = lock_directory(output)
        different_thread.submit(lock.__enter__).result()
        for command in DIRECTORIES:
            error = refuse(command, output)
            assert f"{output} is in use by process {os.getpid()} on " in error
            assert "Fix: wait until" in error
            assert _names(output) == {".lock"}
        different_thread.submit(lock.__exit__, None, None, None).result()


def test_finished_run_is_read_without_a_lock(text, ngram_directory, run, monkeypatch):
    model = ngram_directory
    command = f"ngram --train {text} --min-count 1 --output"
    (model / ".lock").touch()  # of a process that was killed at the end
    os.utime(model / ".lock", (0, 0))
    run(f"{command} {model}")
    assert not (model / ".lock").exists()
    before = _names(model)
    read_only = Mock(side_effect=OSError(errno.EROFS, "Read-only"))
    monkeypatch.setattr("filelock.SoftFileLease.acquire", read_only)
    assert "is finished" in run(f"{command} {model}").err and _names(model) == before
    assert "Cannot write" in run(f"{command} {model.parent}/new", status=2).err


def test_directory_deleted_during_training_is_not_written_again(
    tmp_path, text, small_options, monkeypatch
):
    options = small_options.replace(batch_size=1)  # several executions in an epoch
    callback = CallbackList.on_train_batch_end
    called = []

    def delete(*arguments, **logs):
        called.append(arguments)
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
        callback(*arguments, **logs)

    monkeypatch.setattr(CallbackList, "on_train_batch_end", delete)
    with pytest.raises(RunError, match="model was deleted or replaced while"):
        train(open_corpus(train=[str(text)]), tmp_path / "model", **options._asdict())
    # an update, which Keras and the run tell their callbacks, notices it, not the end of the epoch
    assert _names(tmp_path) == set() and len(called) <= 2


def test_files_of_a_killed_process_are_removed(tmp_path, text, run):
    """A process killed before config.json leaves its lock and half a file, at the first write and
    at a later one.
    """
    model = tmp_path / "model"
    model.mkdir()
    for name in (".lock", ".vocabulary.nplm-4711.txt"):
        (model / name).touch()
    os.utime(model / ".lock", (0, 0))
    run(f"ngram --train {text} --output {model}")
    files = {"config.json", "corpus", "manifest.json", "metrics.json", "ngrams.npz"}
    files |= {"spelling.tsv", "vocabulary.txt"}
    assert {path.name for path in model.iterdir()} == files
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".mine.txt").touch()
    run(f"ngram --train {text} --output {tmp_path}/mine", status=2)
    assert _names(tmp_path / "mine") == {".mine.txt"}
