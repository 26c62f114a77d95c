"""Atomic file writes, and JSON, NumPy and text files that are checked as they are read."""

import contextlib
import json
import mmap
import os
import re
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.io.arrays import free_mapped_pages, map_array, map_file, open_archive_to_write
from keras_nplm.io.errors import InputError
from keras_nplm.io.json_text import check_json_size, parse_json
from keras_nplm.io.lock import check_locks
from keras_nplm.io.paths import check_output_path, output_error
from keras_nplm.io.text import check_is_file, read_text

NUMBER = (int, float)
_RESTORE = "Fix: restore the file, or run the command that wrote it again."
_TEMPORARY = re.compile(r"\..+\.\d+(\.[^.]+)?")  # the names that `replace_file` writes to
_BLOCK = 1 << 20  # numbers that are written or checked at a time
_NAMES = {int: "an integer", NUMBER: "a number", str: "text", list: "a list", dict: "an object"}


@contextlib.contextmanager
def replace_file(path: str | os.PathLike) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path beside `path`, and rename it to `path` at the end of the block.

    If the block raises an error, the temporary file is removed and `path` keeps its old content. The temporary name
    keeps the suffix of `path`, since writers such as Keras choose the format by the suffix.

    Args:
        path: the file to write or replace. Its directory is created if it is absent.

    Raises:
        InputError: `path` is a directory, a device or a pipe; or its directory cannot be created or written.
        RunError: the disk is full, or the file lies in a directory that was locked by `lock_directory` and deleted or
            replaced since.

    Example:

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> with replace_file(directory / "words.txt") as temporary:
    ...     _ = temporary.write_text("the cat")
    >>> [path.name for path in directory.iterdir()]
    ['words.txt']
    """
    path = Path(path)
    check_output_path(path)
    if not path.name or path.is_dir():
        raise InputError(f"The file to write must not be a directory. Received: {path}. Fix: name a file.")
    if path.exists() and not path.is_file():
        raise InputError(
            f"The file to write must not be a device or a pipe. Received: {path}. Fix: name a regular file."
        )
    temporary = path.with_name(f".{path.stem}.{threading.get_native_id()}{path.suffix}")
    locked = check_locks(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        check_locks(path)
        os.replace(temporary, path)
    except OSError as error:
        note = "Its old content, if any, is unchanged."
        raise output_error(path, error, note, was_writable=locked is not None) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def is_temporary(path: Path) -> bool:
    """Whether a file has the name of a temporary file of `replace_file`.

    Example:

    >>> is_temporary(Path("model/.last.4711.npz")), is_temporary(Path("model/last.npz"))
    (True, False)
    """
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporary_files(directory: Path) -> None:
    """Remove what killed processes left of `replace_file`, in a directory that this process has locked."""
    for path in directory.rglob(".*"):
        if is_temporary(path) and path.is_file():
            path.unlink(missing_ok=True)


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write `value` to `path` as indented JSON."""
    with replace_file(path) as temporary:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        temporary.write_bytes(text.encode("utf-8", "backslashreplace"))  # a file name may hold a lone surrogate


def read_json(path: str | os.PathLike) -> dict:
    """Read a JSON object from `path`.

    Raises:
        InputError: the file is absent, is not UTF-8, is not valid JSON, does not hold an object, has more than 16 MiB
            or is nested deeper than 64 levels.
    """
    check_is_file(path)
    check_json_size(path, os.path.getsize(path))
    return parse_json(path, read_text(path))


def check_fields(path: str | os.PathLike, fields: object, wanted: Mapping[str, type | tuple]) -> None:
    """Check the types of fields that were read from a JSON file.

    Args:
        path: the file, for the error.
        fields: the value to check: it must be an object with the wanted fields, and may have more.
        wanted: the type of each field: `int`, `NUMBER`, `str`, `list` or `dict`. NaN and booleans are not numbers.

    Raises:
        InputError: `fields` is not an object, or a field is absent or has a wrong type.

    Example:

    >>> check_fields("config.json", {"order": "five"}, {"order": int})
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: `order` in config.json must be an integer. Received: 'five'. Fix: restore the
    file, or run the command that wrote it again.
    """
    if not isinstance(fields, dict):
        wanted_names = ", ".join(wanted)
        raise InputError(f"{path} must hold an object with {wanted_names}. Received: {_shorten(fields)}. {_RESTORE}")
    for name, kind in wanted.items():
        if name not in fields:
            raise InputError(f"{path} must have the field {name!r}. Received: {_shorten([*fields])}. {_RESTORE}")
        value = fields[name]
        if not isinstance(value, kind) or (kind in (int, NUMBER) and not _is_number(value)):
            received = f"Received: {_shorten(value)}"
            raise InputError(f"`{name}` in {path} must be {_NAMES[kind]}. {received}. {_RESTORE}")


def _is_number(value: float) -> bool:
    huge = isinstance(value, int) and abs(value) >= 1 << 63
    return not (isinstance(value, bool) or huge or value != value)


def _shorten(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a huge number"
    return text if len(text) < 60 else f"{text[:60]}…"


def write_arrays(path: str | os.PathLike, arrays: dict[str, np.ndarray | list[np.ndarray]]) -> None:
    """Write named arrays, and lists of arrays, to `path` (.npz, uncompressed)."""
    named = {}
    for name, value in arrays.items():
        named |= {f"{name}.{i}": array for i, array in enumerate(value)} if isinstance(value, list) else {name: value}
    with replace_file(path) as temporary, open_archive_to_write(temporary) as archive:
        for name, array in named.items():
            array = np.asarray(array)
            archive.write(name, array.dtype, array.shape, number_blocks(array))


def read_arrays(
    path: str | os.PathLike, arrays: Sequence[str] = (), lists: Sequence[str] = (), mapped: bool = False
) -> dict:
    """Read the arrays that `write_arrays` wrote. Safe with an untrusted file: no code runs, and memory is bounded.

    Args:
        path: the file.
        arrays: the names of required arrays.
        lists: the names of lists of arrays, which may be empty.
        mapped: return read-only views of a memory map of the file, for arrays larger than memory. They are checked now
            and read from the file when they are used.

    Returns:
        a dictionary from names to arrays, or to lists of arrays.

    Raises:
        InputError: the file is absent or damaged, an array is missing, or a value is not a number, NaN or +inf.
    """
    check_is_file(path)
    try:
        with open_archive(path) as archive:
            file_map = map_file(path) if mapped else None
            names = {part.removesuffix(".npy") for part in archive.namelist()}
            wanted = {name: [f"{name}.{i}" for i in range(len(names))] for name in lists}
            result = {name: _numbers(path, name, archive, file_map) for name in arrays if name in names}
            for name, keys in wanted.items():
                result[name] = [_numbers(path, key, archive, file_map) for key in keys if key in names]
    except InputError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds of errors for a damaged file
        reason = summarize_error(error)
        raise InputError(f"{path} is not a whole NumPy archive (.npz): {reason}. {_RESTORE}") from error
    if missing := [name for name in arrays if name not in names]:
        received = ", ".join(sorted(names)) or "an empty archive"
        raise InputError(f"{path} must hold the arrays {', '.join(missing)}. Received: {received}. {_RESTORE}")
    return result


def _numbers(path: str | os.PathLike, name: str, archive: zipfile.ZipFile, file_map: mmap.mmap | None) -> np.ndarray:
    if file_map is not None:
        array = map_array(archive, name, file_map)
    else:
        with archive.open(f"{name}.npy") as part:
            array = np.lib.format.read_array(part, allow_pickle=False)
            if part.read(1):  # reading to the end also verifies the checksum
                raise ValueError(f"{name} is longer than its header says")
    if array.dtype.kind not in "biuf" or not array.dtype.isnative:
        raise InputError(
            f"`{name}` in {path} must hold numbers in native byte order. Received: {array.dtype}. {_RESTORE}"
        )
    if not all((block < np.inf).all() for block in number_blocks(array)):
        raise InputError(f"`{name}` in {path} must be below infinity. Received: NaN or infinity. {_RESTORE}")
    return array


def number_blocks(array: np.ndarray, overlap: int = 0) -> Iterator[np.ndarray]:
    """Iterate over the numbers of an array in blocks of one dimension; a mapped array does not stay in memory.

    Args:
        array: the array.
        overlap: how many numbers of the next block a block holds, too.
    """
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK + overlap]
        free_mapped_pages(array)


@contextlib.contextmanager
def open_archive(path: str | os.PathLike) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive (.npz or .keras) for reading, and refuse a zip bomb.

    This package writes its archives uncompressed, so that no small file can claim much memory when it is read.

    Raises:
        InputError: the uncompressed parts are larger than the file.
        zipfile.BadZipFile: the file is not a zip archive.
    """
    size = os.path.getsize(path)
    with zipfile.ZipFile(path) as archive:
        claimed = sum(part.file_size for part in archive.infolist())
        if claimed > size:
            raise InputError(
                f"The parts of {path} must be stored uncompressed. Received: {size:,} bytes that unpack to "
                f"{claimed:,}. {_RESTORE}"
            )
        yield archive


def summarize_error(error: Exception) -> str:
    """Return the first line of a library's error message, at most 200 characters, for use within a sentence."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200] or type(error).__name__
