"""Files that are either whole or absent: each is written under a temporary name and then renamed."""

import contextlib
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.io.errors import InputError, RunError

NUMBER = (int, float)
_NAMES = {int: "an integer", NUMBER: "a number", str: "text", list: "a list", dict: "an object"}


@contextlib.contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block ends well, else remove it.

    The temporary name keeps the suffix of `path`, since writers such as Keras choose a format by it.

    Args:
        path: the file to write or replace. Its directory is made if it is absent.

    Raises:
        InputError: the path is a directory, a device or a pipe.
        RunError: the disk is full or the directory cannot be written. What stood at `path` before stands there still.

    Example:

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with replace_file(directory / "words.txt") as temporary:
    ...     _ = temporary.write_text("the cat")
    >>> [path.name for path in directory.iterdir()]
    ['words.txt']
    """
    path = Path(path)
    if not path.name or path.is_dir():
        raise InputError(f"{path} is a directory: name a file to write.")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a device or a pipe, which a file would take the place of: name another.")
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
    with replace_file(path) as temporary:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))  # a file's name may hold half a surrogate pair


def read_json(path: str | os.PathLike) -> dict:
    """Read a JSON object from `path`.

    Raises:
        InputError: the file is absent, is not UTF-8 JSON, or holds something other than an object, or a NaN.
    """
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        what = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{path} is not valid JSON ({what}): restore it or make it again.") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} must hold a JSON object. Received: {type(value).__name__}.")
    return value


def check_fields(path: str | os.PathLike, fields: object, wanted: Mapping[str, type | tuple]) -> None:
    """Refuse what was read from JSON where a field is absent or of another type.

    Args:
        path: the file, which an error names.
        fields: what must be an object with the fields; it may have others.
        wanted: for each field its type: `int`, `NUMBER`, `str`, `list` or `dict`. NaN is no number.

    Raises:
        InputError: a field is not as it should be.

    Example:

    >>> check_fields("config.json", {"order": "five"}, {"order": int})
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: `order` in config.json must be an integer. Received: 'five'. Make the file again.
    """
    if not isinstance(fields, dict):
        raise InputError(f"{path} must hold an object with {', '.join(wanted)}. Received: {_shown(fields)}.")
    for name, kind in wanted.items():
        if name not in fields:
            raise InputError(f"{path} lacks {name!r}: make the file again.")
        value = fields[name]
        if not isinstance(value, kind) or (kind in (int, NUMBER) and not _is_number(value)):
            received = f"Received: {_shown(value)}"
            raise InputError(f"`{name}` in {path} must be {_NAMES[kind]}. {received}. Make the file again.")


def _is_number(value: float) -> bool:
    huge = isinstance(value, int) and abs(value) >= 1 << 63
    return not (isinstance(value, bool) or huge or value != value)


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return shown if len(shown) < 60 else f"{shown[:60]}…"


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray | list[np.ndarray]]) -> None:
    """Write named arrays, and lists of arrays, to `path` (.npz)."""
    named = {}
    for name, value in arrays.items():
        named |= {f"{name}.{i}": array for i, array in enumerate(value)} if isinstance(value, list) else {name: value}
    with replace_file(path) as temporary:
        np.savez(temporary, **named)


def read_arrays(path: str | os.PathLike, arrays: Sequence[str] = (), lists: Sequence[str] = ()) -> dict:
    """Read what `write_arrays` wrote; nothing in the file is executed, and nothing in it is larger than the file.

    Args:
        path: the file.
        arrays: the names of arrays that it must hold.
        lists: the names of lists of arrays, which may be empty.

    Raises:
        InputError: the file is absent, damaged, or of another kind, or holds what is no number, NaN or +inf.
    """
    check_is_file(path)
    try:
        with open_archive(path) as archive:
            names = {part.removesuffix(".npy") for part in archive.namelist()}
            wanted = {name: [f"{name}.{i}" for i in range(len(names))] for name in lists}
            result = {name: _numbers(path, name, archive) for name in arrays if name in names}
            for name, keys in wanted.items():
                result[name] = [_numbers(path, key, archive) for key in keys if key in names]
    except InputError:
        raise
    except Exception as error:  # of many kinds: whatever zipfile and NumPy come upon in a damaged file
        raise InputError(f"{path} is not a whole file of arrays ({summarize_error(error)}): make it again.") from error
    if missing := [name for name in arrays if name not in names]:
        raise InputError(f"{path} lacks {', '.join(missing)}, so it is of another kind: make it again.")
    return result


def _numbers(path: str | os.PathLike, name: str, archive: zipfile.ZipFile) -> np.ndarray:
    with archive.open(f"{name}.npy") as part:
        array = np.lib.format.read_array(part, allow_pickle=False)
        if part.read(1):  # which also has the whole part's checksum looked at
            raise ValueError(f"{name} is longer than its header says")
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        raise InputError(f"{path} holds no numbers of this machine in {name} ({array.dtype}): make it again.")
    if not (array < np.inf).all():
        raise InputError(f"{path} holds NaN or infinity in {name}: remove it and make it again.")
    return array


@contextlib.contextmanager
def open_archive(path: str | os.PathLike) -> Iterator[zipfile.ZipFile]:
    """Open an archive (.npz or .keras) to read, unless its parts are larger than it is itself.

    What this package writes is not compressed, so that no small file can ask for much memory when it is read.

    Raises:
        InputError: its parts claim to be larger than it is.
        zipfile.BadZipFile: it is no archive.
    """
    size = os.path.getsize(path)
    with zipfile.ZipFile(path) as archive:
        claimed = sum(part.file_size for part in archive.infolist())
        if claimed > size:
            raise InputError(
                f"{path} has {size:,} bytes and would take {claimed:,} when unpacked: its parts must be stored "
                "uncompressed. Make it again."
            )
        yield archive


def summarize_error(error: Exception) -> str:
    """What an exception of another library says, as part of a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200] or type(error).__name__


def check_is_file(path: str | os.PathLike, *, or_pipe: bool = False) -> None:
    """Refuse what cannot be read to its end: directories, devices, and pipes unless they are allowed.

    Raises:
        InputError: it is one of these, or absent.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error
    if not (stat.S_ISREG(mode) or (or_pipe and stat.S_ISFIFO(mode))):
        raise InputError(f"Cannot read {path}: it is a directory, a device or a pipe. Name a file.")


def read_text(path: str | os.PathLike) -> str:
    """Read a whole UTF-8 file, line ends untouched.

    Raises:
        InputError: the file is absent, unreadable, or not UTF-8.
    """
    check_is_file(path)
    try:
        return Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}. Check the name and its permissions.") from error
    except UnicodeDecodeError as error:
        raise utf8_error(path, error.start) from error


def utf8_error(path: str | os.PathLike, offset: int) -> InputError:
    """The error for a file whose bytes at `offset` are not UTF-8."""
    return InputError(
        f"{path} is not UTF-8 text (byte {offset}): convert it first, as in "
        f"`iconv -f LATIN1 -t UTF-8 {Path(path).name}`."
    )
