"""Files that are either whole or absent: each is written under a temporary name and then renamed."""

import contextlib
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.errors import InputError, RunError

_DAMAGED = (OSError, ValueError, EOFError, RuntimeError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block ends well, else remove it.

    The temporary name keeps the suffix of `path`, since writers such as Keras choose a format by it.

    Args:
        path: the file to write or replace. Its directory is made if it is absent.

    Raises:
        InputError: the path is a directory.
        RunError: the disk is full or the directory cannot be written. What stood at `path` before stands there still.

    Example:

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with replacing(directory / "words.txt") as temporary:
    ...     _ = temporary.write_text("the cat")
    >>> [path.name for path in directory.iterdir()]
    ['words.txt']
    """
    path = Path(path)
    if not path.name or path.is_dir():
        raise InputError(f"{path} is a directory: name a file to write.")
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise RunError(
            f"Cannot write {path}: {error.strerror or error}. Free some space there or name another directory; "
            "what stood there before is untouched."
        ) from error
    finally:
        temporary.unlink(missing_ok=True) if temporary.parent.is_dir() else None


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write `value` to `path` as indented JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: str | os.PathLike) -> dict:
    """Read a JSON object from `path`.

    Raises:
        InputError: the file is absent, is not UTF-8 JSON, or holds something other than an object.
    """
    text = read_text(path)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path} is not valid JSON (line {error.lineno}: {error.msg}): restore it or make it again."
        ) from error
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a JSON object. Received: {type(value).__name__}.")
    return value


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray | list[np.ndarray]]) -> None:
    """Write named arrays, and lists of arrays, to `path` (.npz)."""
    named = {}
    for name, value in arrays.items():
        named |= {f"{name}.{i}": array for i, array in enumerate(value)} if isinstance(value, list) else {name: value}
    with replacing(path) as temporary:
        np.savez(temporary, **named)


def read_arrays(path: str | os.PathLike, arrays: Sequence[str] = (), lists: Sequence[str] = ()) -> dict:
    """Read what `write_arrays` wrote; nothing in the file is executed.

    Args:
        path: the file.
        arrays: the names of arrays that it must hold.
        lists: the names of lists of arrays, which may be empty.

    Raises:
        InputError: the file is absent, damaged, or of another kind.
    """
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            names = set(stored.files)
            wanted = {name: [f"{name}.{i}" for i in range(len(names))] for name in lists}
            result = {name: stored[name] for name in arrays if name in names}
            result |= {name: [stored[key] for key in keys if key in names] for name, keys in wanted.items()}
    except FileNotFoundError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error
    except _DAMAGED as error:
        raise InputError(f"{path} is not a whole file of arrays ({error}): make it again.") from error
    if missing := [name for name in arrays if name not in names]:
        raise InputError(f"{path} lacks {', '.join(missing)}, so it is of another kind: make it again.")
    return result


def read_text(path: str | os.PathLike) -> str:
    """Read a whole UTF-8 file, line ends untouched.

    Raises:
        InputError: the file is absent, unreadable, or not UTF-8.
    """
    try:
        return Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error
    except UnicodeDecodeError as error:
        raise not_utf8(path, error.start) from error


def not_utf8(path: str | os.PathLike, offset: int) -> InputError:
    """The error for a file whose bytes at `offset` are not UTF-8."""
    return InputError(
        f"{path} is not UTF-8 text (byte {offset}): convert it first, as in "
        f"`iconv -f LATIN1 -t UTF-8 {Path(path).name}`."
    )
