"""Pickles of models for pools of processes: by the path that they were loaded from, else by
content.

A pickle by path is small. Its files are checked when it is read: they must be those of the pickled
model. A process made by fork has inherited the models of its parent: a pickle is found among them,
and nothing is loaded. A worker keeps the last models that it has read, as a pool sends the model
with each task.
"""

import dataclasses
import functools
import multiprocessing
import os
import pickle
import uuid
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import identify_content
from keras_nplm.io.remote import fetch
from keras_nplm.models.dynamic import digest_weights

_KEPT = 4  # models that a worker keeps
# files of a model directory that loading does not read, beside the corpus, logs and hidden files. A
# model of one's own may have files of any other name.
_NOT_READ = {
    "metrics.json",
    "history.json",
    "report.html",
    "last.npz",
    "previous.npz",
    "word_classes.tsv",
    "word_classes.npz",
}
_live: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()  # by token
# by the token in a pickle: the model, and its own token at that time
_kept: dict[str, tuple[Any, str]] = {}


@dataclasses.dataclass(frozen=True)
class Origin:
    """The file or the model directory that an object was loaded from, as it was then.

    `load(path, self_normalised)` loads the object again. `states` are the size and the time of each
    file, by name.
    """

    load: Callable[[str, bool], Any]
    path: str
    self_normalised: bool
    states: dict[str, tuple[int, int]]

    @classmethod
    def read(
        cls, load: Callable[[str, bool], Any], path: str | os.PathLike, self_normalised: bool
    ) -> "Origin":
        """Look at the files before they are loaded. `path` may be remote."""
        local = fetch(path)
        path = os.path.abspath(path) if Path(path) == local else os.fspath(path)
        return cls(load, path, self_normalised, _read_states(local))

    def describe(self) -> tuple | None:
        """Return the arguments of `reload`; None if a file has changed since."""
        local = fetch(self.path)
        if _read_states(local) != self.states:
            return None
        contents = {name: _identify(local / name, *state) for name, state in self.states.items()}
        return self.load, self.path, self.self_normalised, contents


def reload(
    load: Callable[[str, bool], Any], path: str, self_normalised: bool, contents: Mapping[str, str]
) -> Any:
    """Load a pickled object from its path. The files must have the contents that they had.

    Raises:
        InputError: a file is missing, or has changed.
    """
    local = fetch(path)
    fix = "restore the file, or load the model and pickle it again."
    for name, content in contents.items():
        file = local / name
        if not file.is_file():
            raise InputError(
                f"{file} does not exist: a pickled model was loaded from it. Fix: {fix}"
            )
        state = file.stat()
        found = _identify(file, state.st_size, state.st_mtime_ns)
        if found != content:
            raise InputError(
                f"{file} must be the file that was pickled, {content}. Received: {found}. Fix: "
                f"{fix}"
            )
    return load(path, self_normalised)


class Pickled:
    """Base class of objects that are pickled by path, else by content.

    They call `_register` when they are made.

    A subclass has `_pickled_model`, and `__getstate__` and `__setstate__` for its content.
    """

    _origin: Origin | None = None

    def _register(self) -> None:
        """Give the object a token, by which a pickle finds it in processes made by fork."""
        self.__dict__["_token"] = token = f"{os.getpid()} {uuid.uuid4().hex}"
        _live[token] = self

    def _find_origin(self) -> Origin | None:
        """Return the origin, if the object is still as it was loaded."""
        return self._origin

    def _pickled_model(self) -> Any:
        return self.model

    def __reduce_ex__(self, protocol: Any) -> tuple:
        origin = self._find_origin()
        described = None if origin is None else origin.describe()
        # nested, so that a process that has inherited the object does not read it
        packed = b"" if described else pickle.dumps((type(self), self.__getstate__()), protocol)
        return restore, (
            type(self),
            self._token,
            digest_weights(self._pickled_model()),
            described,
            packed,
        )

    def __getattr__(self, name: str) -> Any:
        """Raise the error of a pickle that could not be read, where the object is used."""
        if "_error" in self.__dict__ and not name.startswith("__"):
            raise self.__dict__["_error"]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __copy__(self) -> "Pickled":
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._register()
        return copied


def restore(
    kind: type[Pickled], token: str, weights: str, described: tuple | None, packed: bytes
) -> Pickled:
    """Return the object of a pickle: an inherited one, one that this worker has read before, or a
    new one.
    """
    is_foreign = not token.startswith(f"{os.getpid()} ")
    if is_foreign:
        known, unchanged = _kept.get(token) or (_live.get(token), token)
        if (
            known is not None
            and known._token == unchanged
            and digest_weights(known._pickled_model()) == weights
        ):
            return known
    try:
        restored = reload(*described) if described else _unpack(packed)
    except Exception as error:
        # a worker of a pool that cannot read its task dies, and the pool waits for ever: the task
        # itself must fail
        if multiprocessing.parent_process() is None:
            raise
        restored = kind.__new__(kind)
        restored.__dict__["_error"] = error
        return restored
    if is_foreign:
        while len(_kept) >= _KEPT:
            del _kept[next(iter(_kept))]
        _kept[token] = restored, restored._token
    return restored


def _unpack(packed: bytes) -> Pickled:
    kind, state = pickle.loads(packed)
    restored = kind.__new__(kind)
    restored.__setstate__(state)
    return restored


def _read_states(path: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the files that loading may read, by their names in a
    directory; "" for a file.
    """
    if not path.is_dir():
        names = [""]
    else:
        found = [*path.iterdir(), *path.glob("components/**/*")]
        names = sorted(file.relative_to(path).as_posix() for file in found if _is_read(file))
    states = {}
    for name in names:
        if (path / name).is_file():
            state = (path / name).stat()
            states[name] = state.st_size, state.st_mtime_ns
    return states


def _is_read(file: Path) -> bool:
    return file.name not in _NOT_READ and not file.name.startswith(".")


@functools.lru_cache(maxsize=64)
def _identify(path: Path, size: int, time: int) -> str:
    """Return `identify_content` of a file, which is computed again when its size or its time
    changes.
    """
    return identify_content(path)
