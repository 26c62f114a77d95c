"""Atomic file writes, and JSON and NumPy files that are checked as they are read.

Files may be untrusted: none of their code runs, and their sizes and unpacked sizes are bounded.
"""

import contextlib
import json
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.io.arrays import free_mapped_pages, map_array, open_archive_to_write
from keras_nplm.io.errors import InputError, shorten_value, summarize_error
from keras_nplm.io.paths import check_locks, check_output_path, output_error
from keras_nplm.io.text import check_is_file, explain_read_errors, read_text

NUMBER = (int, float)
# of a JSON file; the largest lists the shards of a corpus, about 5 MB for a terabyte of text
MAX_JSON_BYTES = 1 << 24
_RESTORE = (
    "Fix: restore the file, or remove the whole output of the command that wrote it, and run it "
    "again."
)
# the names that `replace_file` writes to: editors and shells have names such as `.notes.2.swp`
_TEMPORARY = re.compile(r"\..+\.nplm-\d+(\.[^.]+)?")
_BLOCK = 1 << 20  # numbers that are written or checked at a time
_NAMES = {
    int: "an integer",
    NUMBER: "a number",
    bool: "true or false",
    str: "text",
    list: "a list",
    dict: "an object",
}


@contextlib.contextmanager
def replace_file(path: str | os.PathLike, keep: Path | None = None) -> Iterator[Path]:
    """Write a file atomically: yield a temporary path with its suffix, and rename it to `path`
    without an error.

    A symbolic link stays one: the file that it names is replaced. The old file is renamed to
    `keep`, if given, when the new one is complete.
    """
    path = Path(path)
    check_output_path(path)
    check_regular_file(path)
    target = Path(os.path.realpath(path))
    # neither process nor thread: their numbers are the same in several containers
    number = int.from_bytes(os.urandom(8), "big")
    # cut, since a file name may have 255 bytes
    temporary = target.with_name(f".{path.stem[:40]}.nplm-{number}{path.suffix}")
    try:
        check_locks(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        check_locks(path)
        if keep is not None and target.exists():
            kept = os.path.realpath(keep)
            try:
                os.replace(target, kept)
            except OSError:  # a link may lead to a different file system
                shutil.copyfile(target, kept)
        os.replace(temporary, target)
    except OSError as error:
        raise output_error(path, error, "Its old content, if any, is unchanged.") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def check_regular_file(path: Path) -> None:
    """Refuse a path at which anything but a regular file stands."""
    if not path.name or (path.exists() and not path.is_file()):
        raise InputError(
            f"Cannot write {path}: it is a directory, a device or a pipe. Fix: name a regular file."
        )


def is_temporary(path: Path) -> bool:
    """Return whether a file has the name of a temporary file of `replace_file`."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_temporary_files(directory: Path) -> None:
    """Remove what killed processes left of `replace_file`, in a directory that this process has
    locked.
    """
    for path in directory.rglob(".*"):
        if is_temporary(path) and path.is_file():
            path.unlink(missing_ok=True)


def write_json(path: str | os.PathLike, value: object) -> None:
    """Write a JSON object that `read_json` can read."""
    data = _encode_json(path, value)
    with replace_file(path) as temporary:
        temporary.write_bytes(data)


def write_json_text(path: Path, value: object) -> None:
    """Write a JSON object to a temporary path."""
    path.write_bytes(_encode_json(path, value))


def _encode_json(path: str | os.PathLike, value: object) -> bytes:
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # a file name may hold a lone surrogate
    data = text.encode("utf-8", "backslashreplace")
    fix = "Fix: name fewer input files, or use shorter paths."
    check_json_size(path, len(data), fix=fix)
    return data


def read_json(path: str | os.PathLike) -> dict:
    check_is_file(path)
    check_json_size(path, os.path.getsize(path))
    return parse_json(path, read_text(path))


def check_json_size(
    source: object, size: int, most: int | None = None, fix: str = _RESTORE
) -> None:
    """Check the bytes of JSON text before it is read: parsed, it takes up to 30 times as much
    memory. Default: at most `MAX_JSON_BYTES`.
    """
    most = MAX_JSON_BYTES if most is None else most
    if size > most:
        raise InputError(f"{source} must have at most {most:,} bytes. Received: {size:,}. {fix}")


def parse_json(source: object, text: str) -> dict:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{source} is not valid JSON ({summarize_error(error)}). {_RESTORE}"
        ) from error
    _check_object(source, value, _RESTORE)
    return value


def _check_object(source: object, value: object, fix: str) -> None:
    if not isinstance(value, dict):
        raise InputError(
            f"{source} must hold a JSON object. Received: {type(value).__name__}. {fix}"
        )


def check_fields(
    path: str | os.PathLike, fields: object, wanted: Mapping[str, type | tuple]
) -> None:
    """Check that a JSON value is an object with these fields, of type `int`, `NUMBER`, `bool`,
    `str`, `list` or `dict`.
    """
    if not isinstance(fields, dict):
        received = shorten_value(fields)
        raise InputError(
            f"{path} must hold an object with {', '.join(wanted)}. Received: {received}. {_RESTORE}"
        )
    for name, kind in wanted.items():
        if name not in fields:
            raise InputError(
                f"{path} must have the field {name!r}. Received: {shorten_value([*fields])}. "
                f"{_RESTORE}"
            )
        value = fields[name]
        if not isinstance(value, kind) or (kind in (int, NUMBER) and not _is_number(value)):
            raise InputError(
                f"`{name}` in {path} must be {_NAMES[kind]}. Received: {shorten_value(value)}. "
                f"{_RESTORE}"
            )


def _is_number(value: object) -> bool:
    huge = isinstance(value, int) and abs(value) >= 1 << 63
    return not (isinstance(value, bool) or huge or value != value)


def write_arrays(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray | list[np.ndarray]],
    keep: Path | None = None,
) -> None:
    """Write named arrays, and lists of arrays, to `path` (.npz, uncompressed), whole or not at all;
    see `replace_file` for `keep`.
    """
    with replace_file(path, keep) as temporary:
        write_archive(temporary, arrays)


def write_archive(path: Path, arrays: Mapping[str, np.ndarray | list[np.ndarray]]) -> None:
    """Write the arrays of `write_arrays` to a temporary path."""
    named: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if isinstance(value, list):
            for i, array in enumerate(value):
                named[f"{name}.{i}"] = array
        else:
            named[name] = value
    with open_archive_to_write(path) as write:
        for name, array in named.items():
            array = np.asarray(array)
            write(name, array.dtype, array.shape, iterate_blocks(array))


def read_arrays(
    path: str | os.PathLike,
    arrays: Sequence[str] = (),
    lists: Sequence[str] = (),
    mapped: bool = False,
) -> dict:
    """Read the required `arrays` that `write_arrays` wrote, and `lists` of arrays, which may be
    empty; or map them.
    """
    check_is_file(path)
    try:
        with open_archive(path) as archive:
            names = {part.removesuffix(".npy") for part in archive.namelist()}
            wanted = {name: [f"{name}.{i}" for i in range(len(names))] for name in lists}
            result: dict[str, np.ndarray | list[np.ndarray]] = {
                name: _numbers(path, name, archive, mapped) for name in arrays if name in names
            }
            for name, keys in wanted.items():
                result[name] = [
                    _numbers(path, key, archive, mapped) for key in keys if key in names
                ]
    except InputError:
        raise
    except Exception as error:  # zipfile and NumPy raise many kinds of errors for a damaged file
        reason = summarize_error(error)
        raise InputError(
            f"{path} is not a whole NumPy archive (.npz): {reason}. {_RESTORE}"
        ) from error
    if missing := [name for name in arrays if name not in names]:
        received = ", ".join(sorted(names)) or "an empty archive"
        raise InputError(
            f"{path} must hold the arrays {', '.join(missing)}. Received: {received}. {_RESTORE}"
        )
    return result


def _numbers(
    path: str | os.PathLike, name: str, archive: zipfile.ZipFile, mapped: bool
) -> np.ndarray:
    array = map_array(path, archive, name) if mapped else None
    if array is None:
        with archive.open(f"{name}.npy") as part:
            array = np.lib.format.read_array(part, allow_pickle=False)
            if part.read(1):  # reading to the end also verifies the checksum
                raise ValueError(f"{name} is longer than its header says")
    are_numbers = array.dtype.kind in "biuf" and array.dtype.isnative
    if not are_numbers or not all((block < np.inf).all() for block in iterate_blocks(array)):
        raise InputError(f"`{name}` in {path} must hold native numbers below infinity. {_RESTORE}")
    return array


def iterate_blocks(array: np.ndarray, overlap: int = 0) -> Iterator[np.ndarray]:
    """Iterate over the numbers of an array in blocks, each followed by the first `overlap` numbers
    of the next one.
    """
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK + overlap]
        free_mapped_pages(array)


@contextlib.contextmanager
def open_archive(path: str | os.PathLike) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive (.npz or .keras) for reading, and refuse a zip bomb: our own are
    uncompressed.
    """
    size = os.path.getsize(path)
    with zipfile.ZipFile(path) as archive:
        claimed = sum(part.file_size for part in archive.infolist())
        if claimed > size:
            raise InputError(
                f"{path} must be stored uncompressed. Received: {claimed:,} bytes in {size:,}. "
                f"{_RESTORE}"
            )
        yield archive


def identify_content(path: str | os.PathLike) -> str:
    """Return the size and the CRC-32 of a file's bytes."""
    checksum = 0
    with explain_read_errors(path), open(path, "rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
        return f"{file.tell()} bytes, crc32 {checksum:08x}"


# of `identify_content`, behind the path of a file in the name of a corpus
CONTENT = r" \(\d+ bytes, crc32 [0-9a-f]{8}\)"


def remove_contents(name: str) -> str:
    """Return the name of a corpus with the paths of its files alone."""
    return re.sub(CONTENT, "", name)
