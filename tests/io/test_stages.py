"""Stages of a directory are kept, continued, made again or refused; damage is one error."""

import contextlib
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import keras_nplm
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import replace_file
from keras_nplm.io.stages import MODEL, Stages, find_differences, lock_stages, verify_stages
from tests.kills import kill_at_rename

# the tests that kill what makes the stages of a file, at a rename
KILLED = {
    "data/encoding.py": "data/test_encoding.py::test_a_text_is_encoded_as_its_lines",
    "experiments/rows.py": "experiments/test_rows.py::test_a_resumed_row_has_the_origins_of_all",
    "training/background.py": "training/test_checkpoint.py::test_runs_that_are_killed_and",
    "training/estimate.py": "training/test_estimate.py::test_word_classes_are_found_however_often",
    "training/prepare.py": "training/test_checkpoint.py::test_runs_that_are_killed_and",
    "training/train.py": "training/test_checkpoint.py::test_runs_that_are_killed_and",
}


def test_every_stage_of_the_package_is_killed_by_a_test():
    root = Path(keras_nplm.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"(Stages\(.*\)|stages)\.make\(", path.read_text())
    }
    assert found - {"io/stages.py"} == {*KILLED}
    for file, _, test in (named.partition("::") for named in KILLED.values()):
        assert f"def {test}" in Path(__file__).parents[1].joinpath(file).read_text()


FILES = ("a.txt", "parts/0/b.txt")
CHECKPOINT = "last.txt"


def _write(path: Path, text: str) -> None:
    with replace_file(path) as temporary:
        temporary.write_text(text)


def _make(directory: Path, key: int) -> None:
    """Write the files that are absent, and a checkpoint after each."""
    for name in FILES:
        if not (directory / name).exists():
            _write(directory / name, f"{name} of {key}")
        _write(directory / CHECKPOINT, name)
    (directory / CHECKPOINT).unlink()


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8)), min_size=1, max_size=8),
    st.booleans(),
)
@example([(0, 0), (1, 1)], True)  # killed before the key of the second is there
def test_a_stage_has_the_files_of_its_key_however_often_it_was_killed(calls, replace):
    """Each call has a key, and is killed at a rename of some number; 0: it is not killed."""
    directory = Path(tempfile.mkdtemp())
    stages = Stages(directory)
    begun: int | None = None
    for key, end in calls:
        is_locked = stages.is_made("files") or (directory / CHECKPOINT).exists()
        is_refused = begun not in (None, key) and is_locked and not replace
        refusal = pytest.raises(InputError) if is_refused else contextlib.nullcontext()
        with kill_at_rename(end), refusal:
            stages.make(
                "files",
                {"key": key},
                ["a.txt", "parts"],
                lambda key=key: _make(directory, key),
                checkpoints=[CHECKPOINT],
                replace=replace,
            )
        if (written := stages.read_key("files")) is not None:
            begun = written["key"]
        if stages.is_made("files"):
            contents = [(directory / name).read_text() for name in FILES]
            assert contents == [f"{name} of {begun}" for name in FILES]
            verify_stages(directory)
    shutil.rmtree(directory)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "missing"])
def test_a_damaged_file_is_one_error_with_its_stage(tmp_path, name, damage):
    stages = Stages(tmp_path)
    stages.make("files", {}, ["a.txt", "parts"], lambda: _make(tmp_path, 1))
    stages.make("more", {}, ["c.txt"], lambda: _write(tmp_path / "c.txt", "c"))
    path = tmp_path / name
    text = path.read_text()
    if damage == "missing":
        path.unlink()
    else:
        path.write_text({"cut": text[:-1], "changed": text[::-1], "foreign": "another"}[damage])
    fault = "is absent" if damage == "missing" else "has changed"
    message = f"{re.escape(name)}, which its stage `files` made, {fault}.* Fix: restore"
    for read in (
        lambda: verify_stages(tmp_path),
        lambda: stages.make("files", {}, ["a.txt", "parts"], lambda: None),
    ):
        with pytest.raises(InputError, match=message):
            read()
    verify_stages(tmp_path, ["more"])
    stages.make("files", {}, ["a.txt", "parts"], lambda: _make(tmp_path, 1), replace=True)
    assert path.read_text() == text and verify_stages(tmp_path) is None


def test_a_saved_model_is_not_taken_for_stages_to_continue(tmp_path):
    """A command would begin its text there, and remove the vocabulary of the model."""
    (tmp_path / "vocabulary.txt").write_text("the")
    Stages(tmp_path).record(MODEL, {}, ["[!.]*"])
    with pytest.raises(InputError, match="already holds a model"), lock_stages(tmp_path):
        pass
    verify_stages(tmp_path)


def test_a_refused_command_leaves_nothing(tmp_path):
    def refuse() -> None:
        raise InputError("the text is empty")

    with pytest.raises(InputError), lock_stages(tmp_path / "new") as stages:
        stages.make("text", {}, ["a.txt"], refuse)
    assert not (tmp_path / "new").exists()


def test_options_of_a_part_that_is_not_chosen_are_no_difference():
    head = {"kind": "adaptive", "cutoffs": [100]}
    one = {"order": 3, "head": head, "seed": 1}
    assert find_differences(one, one | {"head": {"kind": "full"}}) == {"head": ("adaptive", "full")}
    assert find_differences(one, one | {"head": head | {"cutoffs": [9]}}) == {
        "cutoffs": ([100], [9])
    }
    assert find_differences(one, {"order": 3, "head": head}) == {"seed": (1, None)}


def test_a_directory_with_stages_is_continued_without_what_killed_processes_left(tmp_path):
    with lock_stages(tmp_path / "new") as stages:
        stages.begin("text", {"order": (3, 4)}, ["a.txt"])
    for name in (".model.nplm-4711.keras", "parts/1/.a.nplm-4711.npz", "logs/.notes.2.swp"):
        path = tmp_path / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with lock_stages(tmp_path / "new") as stages:
        assert stages.read_key("text") == {"order": [3, 4]}
        files = {path.name for path in (tmp_path / "new").rglob("*") if path.is_file()}
        assert files == {".lock", "manifest.json", ".notes.2.swp"}


def test_a_directory_of_other_files_is_refused_and_keeps_them(tmp_path):
    names = {"mine.txt", ".model.nplm-1.keras"}
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(InputError, match="exists and is not a model dir"), lock_stages(tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == names
