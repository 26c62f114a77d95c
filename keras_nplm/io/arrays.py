"""NumPy archives (.npz) larger than memory: arrays written in blocks, aligned, and read through a
memory map.
"""

import contextlib
import functools
import math
import mmap
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator

import numpy as np

_ALIGNMENT = 64  # bytes, of the numbers of an array in the file
_BLOCK_BYTES = 1 << 22  # that are checked at a time
_LOCAL_HEADER = 30  # bytes of a zip member before its name


@contextlib.contextmanager
def open_archive_to_write(path: str | os.PathLike) -> Iterator[Callable]:
    """Open an uncompressed `.npz` archive: yield a function `write(name, dtype, shape, blocks)`.

    It writes an array from blocks of its numbers, in row-major order. The numbers begin at a
    multiple of 64 bytes, as memory maps need.
    """
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:

        def write(
            name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[np.ndarray]
        ) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                part.write(_describe_array(dtype, shape, file.tell()))
                for block in blocks:
                    part.write(np.ascontiguousarray(block, dtype).view(np.uint8).data)

        yield write


def _describe_array(dtype: np.dtype, shape: tuple[int, ...], start: int) -> bytes:
    """Return the header of the `.npy` format, version 1.0, so long that the numbers after it are
    aligned.
    """
    text = (
        f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': "
        f"{shape!r}, }}"
    )
    magic = np.lib.format.magic(1, 0)
    padding = -(start + len(magic) + 2 + len(text) + 1) % _ALIGNMENT
    return (
        magic
        + (len(text) + padding + 1).to_bytes(2, "little")
        + f"{text}{' ' * padding}\n".encode("latin1")
    )


def map_array(path: str | os.PathLike, archive: zipfile.ZipFile, name: str) -> np.ndarray | None:
    """Map an array of an uncompressed `.npz` archive, and check its checksum; None if it is empty
    or not aligned.
    """
    with archive.open(f"{name}.npy") as part:
        if np.lib.format.read_magic(part) != (1, 0):
            return None
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(part)
        start = _find_member(path, archive.getinfo(f"{name}.npy")) + part.tell()
        if dtype.hasobject or is_fortran or start % dtype.alignment or not math.prod(shape):
            return None
        # verifies the checksum, too
        size = sum(map(len, iter(functools.partial(part.read, _BLOCK_BYTES), b"")))
        if size != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} has another size than its header says")
    return np.asarray(np.memmap(path, dtype, "r", start, shape))


def _find_member(path: str | os.PathLike, member: zipfile.ZipInfo) -> int:
    """Return the position of a member's content in its archive."""
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER)
    return member.header_offset + len(header) + sum(np.frombuffer(header[-4:], "<u2").tolist())


def is_mapped(array: np.ndarray) -> bool:
    """Return whether an array is memory-mapped from a file."""
    return isinstance(_find_base(array), mmap.mmap)


def _find_base(array: np.ndarray) -> object:
    """Return the object that owns the memory of an array."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base


def free_mapped_pages(array: np.ndarray, least_bytes: int = 0) -> None:
    """Drop the pages of a mapped array from this process's memory, if it has at least
    `least_bytes`.
    """
    base = _find_base(array)
    if isinstance(base, mmap.mmap) and len(base) >= least_bytes and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
