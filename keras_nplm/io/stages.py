"""The stages of an output directory: what is made there is kept, continued, or made again.

A stage makes some of the files: the text, the n-gram model, the network, the figures.
`manifest.json` has an entry for each. Its key, the options and the input of the stage, is there
from the beginning; the bytes and the CRC-32 of its files are there from the end.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError, check_argument, drop_fix
from keras_nplm.io.files import (
    is_temporary,
    measure_content,
    read_json,
    remove_contents,
    remove_temporary_files,
    write_json,
)
from keras_nplm.io.lock import LOCK_NAME, lock_directory
from keras_nplm.io.paths import check_output_path, find_free_path, is_remote
from keras_nplm.io.remote import display_url

MANIFEST = "manifest.json"
MODEL = "model"  # the last stage of a model directory
_VERIFIED_BYTES = 1 << 30  # of the files of a call; of those behind them the size is verified
_WRITING = threading.Lock()  # of a manifest, by threads that make rows


class Stages:
    """The stages of a directory, which this process has locked.

    >>> import tempfile
    >>> stages = Stages(Path(tempfile.mkdtemp()))
    >>> write = (stages.directory / "words.txt").write_text
    >>> stages.make("text", {"min_count": 1}, ["words.txt"], lambda: write("the cat"))
    >>> stages.make("text", {"min_count": 1}, ["words.txt"], lambda: write("is there already"))
    >>> (stages.directory / "words.txt").read_text()
    'the cat'
    >>> read_manifest(stages.directory)["text"]["files"]
    {'words.txt': [7, 4044581832]}
    """

    def __init__(self, directory: Path):
        self.directory = directory

    def is_made(self, stage: str) -> bool:
        return "files" in read_manifest(self.directory).get(stage, {})

    def read_key(self, stage: str) -> dict[str, Any] | None:
        """Return the key with which a stage was begun; None if it was not."""
        return read_manifest(self.directory).get(stage, {}).get("key")

    def begin(
        self,
        stage: str,
        key: Mapping[str, Any],
        outputs: Sequence[str],
        *,
        checkpoints: Sequence[str] = (),
        replace: bool = False,
        advise: Callable[[Collection[str]], str | None] = lambda differing: None,
    ) -> None:
        """Record the key of a stage, and remove what was made with another one.

        Args:
            stage, key: the name of the stage, and its options and input, as JSON.
            outputs: names or glob patterns of the files and directories that the stage makes.
            checkpoints: files from which an unfinished stage continues.
            replace: whether a stage that is damaged, or is of another key, is made again.
            advise: returns the remedy if the options of some names differ. None: name another
                directory.

        Raises:
            InputError: the stage has another key, and work that only this key can use.
        """
        entry = read_manifest(self.directory).get(stage)
        key = _encode_key(key)
        if entry is not None and entry["key"] == key:
            return
        if entry is not None and not replace:
            has_work = any((self.directory / name).exists() for name in checkpoints)
            if "files" in entry or has_work:
                self._refuse(entry["key"], key, advise)
        self._restart(stage, key, outputs)

    def make(
        self,
        stage: str,
        key: Mapping[str, Any],
        outputs: Sequence[str],
        make: Callable[[], object],
        *,
        replace: bool = False,
        **options: Any,
    ) -> None:
        """Make the files of a stage by `make()`, unless they are there with this key.

        A stage that was interrupted is left to `make()`, which may continue it. The arguments are
        those of `begin`.

        Raises:
            InputError: a file that is there is not as it was made; see also `begin`.
        """
        self.begin(stage, key, outputs, replace=replace, **options)
        if self.is_made(stage):
            try:
                verify_stages(self.directory, [stage])
                return
            except InputError as error:
                if not replace:
                    raise
                print(f"{drop_fix(error)} It is made again.", file=sys.stderr)
                self._restart(stage, _encode_key(key), outputs)
        try:
            make()
        except InputError:
            if not any(_find(self.directory, outputs)):  # a refused command leaves nothing
                self._write(stage, None)
                if not read_manifest(self.directory):
                    (self.directory / MANIFEST).unlink(missing_ok=True)
            raise
        self.record(stage, key, outputs)

    def record(self, stage: str, key: Mapping[str, Any], outputs: Sequence[str]) -> None:
        """Record that a stage is made: the bytes and the CRC-32 of its files."""
        paths = sorted(set(_list_files(self.directory, outputs)))
        files = {
            path.relative_to(self.directory).as_posix(): [*measure_content(path)] for path in paths
        }
        self._write(stage, {"key": _encode_key(key), "files": files})

    def _restart(self, stage: str, key: dict[str, Any], outputs: Sequence[str]) -> None:
        """Remove the files of a stage, and record its key."""
        # a stage without an entry has no files that count, whenever this is killed
        self._write(stage, None)
        for path in _find(self.directory, outputs):
            _remove(path)
        self._write(stage, {"key": key})

    def _write(self, stage: str, entry: dict[str, Any] | None) -> None:
        with _WRITING:
            before = read_manifest(self.directory)
            stages = {**before, stage: entry}
            if entry is None:
                del stages[stage]
            if stages != before:
                write_json(self.directory / MANIFEST, stages)

    @contextlib.contextmanager
    def reopen_if_refused(self, stage: str) -> Iterator[None]:
        """Reopen a stage that the block makes if the block raises an InputError: the next command
        may have another key.
        """
        was_made = self.is_made(stage)
        try:
            yield
        except InputError:
            if not was_made and self.is_made(stage):
                self._write(stage, {"key": self.read_key(stage)})
            raise

    def _refuse(
        self,
        before: Mapping[str, Any],
        now: Mapping[str, Any],
        advise: Callable[[Collection[str]], str | None],
    ) -> None:
        differing = find_differences(before, now)
        advice = advise(differing) or (
            f"Fix: {advise_new_output(self.directory)}, or remove {self.directory}."
        )
        described = (_describe_change(name, *values) for name, values in differing.items())
        raise InputError(
            f"{self.directory} holds a run with other options: {'; '.join(described)}. {advice}"
        )


def read_manifest(directory: Path) -> dict[str, dict]:
    """Read the entries of the stages by name; {} if there are none."""
    path = directory / MANIFEST
    try:
        return read_json(path) if path.exists() else {}
    except InputError as error:
        raise _describe_damage(directory, drop_fix(error)) from error


def verify_stages(
    directory: Path,
    stages: Collection[str] = (),
    is_wanted: Callable[[str], bool] = lambda name: True,
) -> None:
    """Refuse files that are not as their stage made them; default: all files of all stages.

    `is_wanted` chooses files by their names.
    """
    read = 0
    for stage, entry in read_manifest(directory).items():
        if stages and stage not in stages:
            continue
        for name, described in entry.get("files", {}).items():
            if not is_wanted(name):
                continue
            path = directory / name
            size, _ = described
            is_whole = path.is_file() and path.stat().st_size == size
            read += size
            if is_whole and (read > _VERIFIED_BYTES or [*measure_content(path)] == described):
                continue
            fault = "has changed" if path.exists() else "is absent"
            raise _describe_damage(directory, f"{name}, which its stage `{stage}` made, {fault}.")


def _describe_damage(directory: Path, fault: str) -> InputError:
    if directory.name == "corpus" and (directory.parent / MANIFEST).exists():
        directory = directory.parent
    shown = display_url(directory)
    return InputError(
        f"The run in {shown} is damaged: {fault} Fix: restore the file, or remove {shown} and run "
        "the same command again."
    )


def find_differences(
    before: Mapping[str, Any], now: Mapping[str, Any]
) -> dict[str, tuple[object, object]]:
    """Return the options that differ, with both values.

    Where a part was chosen in place of another, its own options are no difference.
    """
    differing: dict[str, tuple[object, object]] = {}
    for name in sorted(before.keys() | now.keys()):
        one, other = before.get(name), now.get(name)
        if one == other:
            continue
        kinds = [value.get("kind") if isinstance(value, dict) else value for value in (one, other)]
        if isinstance(one, dict) and isinstance(other, dict) and kinds[0] == kinds[1]:
            differing |= find_differences(one, other)
        else:
            differing[name] = kinds[0], kinds[1]
    return differing


def _describe_change(name: str, before: object, now: object) -> str:
    """Return an option with its value of the run and its value now."""
    values = ["none" if value is None else remove_contents(str(value)) for value in (before, now)]
    if values[0] == values[1]:
        return f"{name}: its files have changed"
    return f"{name}: {values[0]} there, {values[1]} now"


def _encode_key(key: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(key))  # tuples become lists


def _find(directory: Path, outputs: Sequence[str]) -> Iterator[Path]:
    for name in outputs:
        yield from directory.glob(name)


def _list_files(directory: Path, outputs: Sequence[str]) -> Iterator[Path]:
    """List the files of outputs; of a directory with a manifest of its own, the manifest."""
    for path in _find(directory, outputs):
        if not path.is_dir():
            if path.name != MANIFEST:
                yield path
        elif (path / MANIFEST).exists():
            yield path / MANIFEST
        else:
            yield from _list_files(path, ["[!.]*"])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_stages(directory: Path) -> Iterator[Stages]:
    """Lock a directory that is absent or empty, or whose stages are to be continued.

    Temporary files of killed processes are removed. A model that is made can be read without the
    lock, such as on a disk that cannot be written.
    """
    stages = Stages(directory)
    check_output_path(directory)
    with contextlib.ExitStack() as at_end:
        try:
            at_end.enter_context(lock_directory(directory))
        except (InputError, RunError):
            if not stages.is_made(MODEL):
                raise
        else:
            check_stages(directory)
            remove_temporary_files(directory)
        yield stages


def check_stages(directory: Path) -> None:
    """Refuse a directory that is neither absent nor empty, and has no stages to continue: also a
    model that was saved without a text.
    """
    if is_remote(directory):
        return
    if _is_saved(directory) or not (directory / MANIFEST).exists():
        check_output_directory(directory)


def _is_saved(directory: Path) -> bool:
    """Return whether a directory holds a model without a run that made it."""
    stages = Stages(directory)
    return stages.is_made(MODEL) and stages.read_key("text") is None


def _is_replaceable(directory: Path) -> bool:
    """Return whether a directory holds a saved model alone, without the figures of a command."""
    return _is_saved(directory) and not (directory / "metrics.json").exists()


@contextlib.contextmanager
def replace_saved_model(directory: Path) -> Iterator[Path]:
    """Yield a free path, whose content takes the place of a saved model at the end of the block;
    where there is no saved model, the directory itself.

    A killed process leaves the old model where it was, or in a hidden directory beside it.
    """
    if not _is_replaceable(directory):
        yield directory
        return
    directory = directory.absolute()
    with lock_directory(directory):
        pass  # no other process writes it
    with tempfile.TemporaryDirectory(prefix=".nplm-", dir=directory.parent) as scratch:
        new, old = Path(scratch, "new"), Path(scratch, "old")
        yield new
        try:
            directory.rename(old)
            new.rename(directory)
        except BaseException:
            if not directory.exists():
                old.rename(directory)
            raise


@contextlib.contextmanager
def lock_new_directory(directory: Path, argument: str = "--output") -> Iterator[None]:
    """Lock a directory that must be empty or absent, until the end of the block."""
    check_output_directory(directory, argument)
    with lock_directory(directory):
        check_output_directory(directory, argument)
        remove_temporary_files(directory)
        yield


def check_output_directory(directory: Path, argument: str = "--output") -> None:
    """Check that an output directory is empty, but for the lock and temporary files, or does not
    exist.
    """
    check_output_path(directory)
    if directory.exists() and not directory.is_dir():
        fix = f"{advise_new_output(directory.with_suffix(''), argument)}."
        check_argument(argument, False, "a directory", f"{directory}, a file", fix)
    paths = directory.iterdir() if directory.is_dir() else []
    if not all(path.name == LOCK_NAME or is_temporary(path) for path in paths):
        is_model = (directory / MANIFEST).exists()
        held = "already holds a model" if is_model else "exists and is not a model directory"
        other = "Or delete the directory, if an interrupted command left it."
        if argument == "directory" and _is_replaceable(directory):
            other = "Or replace the saved model by `overwrite=True`."
        raise InputError(
            f"{directory} {held}. Fix: {advise_new_output(directory, argument)}. {other}"
        )


def advise_new_output(directory: Path, argument: str = "--output") -> str:
    """Return the advice to write elsewhere, with a path that is free."""
    advice = f"choose a new `{argument}`"
    if display_url(directory) != str(directory):  # the copy of a remote directory
        return advice
    return f"{advice}, such as {find_free_path(directory)}"


def check_output_file(target: str | os.PathLike) -> None:
    """Check that an output file can exist, and not in a model directory, whose files must stay
    unchanged.
    """
    check_output_path(target)
    parent = Path(target).parent
    if (parent / MANIFEST).exists():
        raise InputError(
            f"{target} lies in the model directory {parent}. Fix: choose a different directory."
        )
