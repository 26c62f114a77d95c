"""NumPy archives (.npz) larger than memory: arrays written in blocks, aligned, and read through a memory map."""

import contextlib
import math
import mmap
import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO

import numpy as np

_ALIGNMENT = 64  # bytes, of the numbers of an array in the file
_BLOCK_BYTES = 1 << 22  # that are checked at a time
_LOCAL_HEADER = 30  # bytes of a zip member before its name


class ArchiveWriter:
    """Writer of an uncompressed `.npz` archive whose arrays begin at multiples of 64 bytes, as memory maps need."""

    def __init__(self, file: IO[bytes], archive: zipfile.ZipFile):
        self._file, self._archive = file, archive

    def write(self, name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable[np.ndarray]) -> None:
        """Write an array from blocks of its numbers, in row-major order."""
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as part:
            part.write(_describe_array(dtype, shape, self._file.tell()))
            for block in blocks:
                part.write(np.ascontiguousarray(block, dtype).view(np.uint8).data)


@contextlib.contextmanager
def open_archive_to_write(path: str | os.PathLike) -> Iterator[ArchiveWriter]:
    """Open an `.npz` archive to write. `np.load` reads it."""
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        yield ArchiveWriter(file, archive)


def _describe_array(dtype: np.dtype, shape: tuple[int, ...], start: int) -> bytes:
    """Return the header of the `.npy` format, version 1.0, so long that the numbers after it are aligned."""
    text = f"{{'descr': {np.lib.format.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    magic = np.lib.format.magic(1, 0)
    padding = -(start + len(magic) + 2 + len(text) + 1) % _ALIGNMENT
    return magic + (len(text) + padding + 1).to_bytes(2, "little") + f"{text}{' ' * padding}\n".encode("latin1")


def map_array(archive: zipfile.ZipFile, name: str, file_map: mmap.mmap) -> np.ndarray | None:
    """Return an array of an uncompressed `.npz` archive as a read-only view of the file's memory map.

    The array is read once, in blocks, which raises an error if it is damaged. Return None for an array that is not
    aligned, as in archives of other writers.
    """
    with archive.open(f"{name}.npy") as part:
        version = np.lib.format.read_magic(part)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read_header(part)
        if min(shape, default=0) < 0:
            raise ValueError(f"{name} has the shape {shape}")
        start = _find_member(archive.getinfo(f"{name}.npy"), file_map) + part.tell()
        size = math.prod(shape)
        if dtype.hasobject or is_fortran or start % dtype.alignment:
            return None
        left = size * dtype.itemsize
        while left:
            block = part.read(min(left, _BLOCK_BYTES))
            if not block:
                raise ValueError(f"{name} is shorter than its header says")
            left -= len(block)
        if part.read(1):  # reading to the end also verifies the checksum
            raise ValueError(f"{name} is longer than its header says")
    return np.frombuffer(file_map, dtype, size, start).reshape(shape)


def _find_member(member: zipfile.ZipInfo, file_map: mmap.mmap) -> int:
    """Return the position of a member's content in its archive."""
    header = file_map[member.header_offset : member.header_offset + _LOCAL_HEADER]
    lengths = int.from_bytes(header[26:28], "little"), int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER + sum(lengths)


def map_file(path: str | os.PathLike) -> mmap.mmap:
    """Return a read-only memory map of a file. It stays valid after the file is closed, renamed or removed."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def free_mapped_pages(array: np.ndarray, least_bytes: int = 0) -> None:
    """Drop the pages of a mapped array from this process's memory, if its file has at least `least_bytes`."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and len(base) >= least_bytes and hasattr(base, "madvise"):
        base.madvise(mmap.MADV_DONTNEED)
