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
from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.paths import check_locks, check_output_path, output_error
from keras_nplm.io.text import check_is_file, explain_read_errors, read_text

# of a JSON file; the largest lists the shards of a corpus, about 5 MB for a terabyte of text
MAX_JSON_BYTES = 1 << 26
_RESTORE = (
    "Fix: restore the file, or remove the whole output of the command that wrote it, and run it "
    "again."
)
# the names that `replace_file` writes to: editors and shells have names such as `.notes.2.swp`
_TEMPORARY = re.compile(r"\..+\.nplm-\d+(\.[^.]+)?")
_BLOCK = 1 << 20  # numbers that are written or checked at a time


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
            # a link may lead to a different file system
            shutil.move(target, os.path.realpath(keep))
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
    with replace_file(path) as temporary:
        write_json_text(temporary, value)


def write_json_text(path: Path, value: object) -> None:
    """Write a JSON object to a temporary path."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    # a file name may hold a lone surrogate
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def read_json(path: str | os.PathLike) -> dict:
    check_is_file(path)
    check_json_size(path, os.path.getsize(path))
    return parse_json(path, read_text(path))


def check_json_size(source: object, size: int, most: int = MAX_JSON_BYTES) -> None:
    """Check the bytes of JSON text before it is read: parsed, it takes up to 30 times as much
    memory.
    """
    if size > most:
        raise InputError(
            f"{source} must have at most {most:,} bytes. Received: {size:,}. {_RESTORE}"
        )


def parse_json(source: object, text: str) -> dict:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{source} is not valid JSON ({summarize_error(error)}). {_RESTORE}"
        ) from error
    if not isinstance(value, dict):
        raise InputError(
            f"{source} must hold a JSON object. Received: {type(value).__name__}. {_RESTORE}"
        )
    return value


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
            return {name: _numbers(path, name, archive, mapped) for name in arrays} | {
                name: [_numbers(path, key, archive, mapped) for key in keys if key in names]
                for name, keys in wanted.items()
            }
    except Exception as error:  # zipfile and NumPy raise many kinds of errors for a damaged file
        reason = summarize_error(error)
        raise InputError(
            f"{path} is not a whole NumPy archive (.npz): {reason}. {_RESTORE}"
        ) from error


def _numbers(
    path: str | os.PathLike, name: str, archive: zipfile.ZipFile, mapped: bool
) -> np.ndarray:
    array = map_array(path, archive, name) if mapped else None
    if array is None:
        with archive.open(f"{name}.npy") as part:
            array = np.lib.format.read_array(part, allow_pickle=False)
            if part.read(1):  # reading to the end also verifies the checksum
                raise ValueError(f"{name} is longer than its header says")
    return array


def iterate_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Iterate over the numbers of an array in blocks."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]
        free_mapped_pages(array)


@contextlib.contextmanager
def open_archive(path: str | os.PathLike) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive (.npz or .keras) for reading.

    Raises:
        ValueError: it unpacks to more bytes than it has, as a zip bomb does. Our own archives are
            uncompressed.
    """
    with zipfile.ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > os.path.getsize(path):
            raise ValueError("its parts must be stored uncompressed")
        yield archive


def measure_content(path: str | os.PathLike) -> tuple[int, int]:
    """Return the number and the CRC-32 of a file's bytes."""
    checksum = 0
    with explain_read_errors(path), open(path, "rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
        return file.tell(), checksum


def identify_content(path: str | os.PathLike) -> str:
    """Return the size and the CRC-32 of a file's bytes, in words."""
    size, checksum = measure_content(path)
    return f"{size} bytes, crc32 {checksum:08x}"


# of `identify_content`, behind the path of a file in the name of a corpus
CONTENT = r" \(\d+ bytes, crc32 [0-9a-f]{8}\)"


def remove_contents(name: str) -> str:
    """Return the name of a corpus with the paths of its files alone."""
    return re.sub(CONTENT, "", name)
