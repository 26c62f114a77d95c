"""Columns of numbers that are larger than memory: appended to a file, and read as slices."""

import contextlib
import io
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np

IN_MEMORY = 1 << 20  # bytes of a column that need no file


class Column:
    """A column of numbers: appended to its end, and read as slices, which are copies."""

    def __init__(self, file: IO[bytes], dtype: Any):
        self.dtype = np.dtype(dtype)
        self._file = file
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, values: np.ndarray) -> None:
        """Append numbers, which the type of the column can hold."""
        self._file.seek(0, io.SEEK_END)
        self._file.write(np.ascontiguousarray(values, self.dtype).view(np.uint8).data)
        self._length += len(values)

    def read(self, start: int, number: int) -> np.ndarray:
        """Read up to `number` numbers from a place on: fewer at the end of the column."""
        values = np.empty(max(0, min(number, self._length - start)), self.dtype)
        self._file.seek(start * self.dtype.itemsize)
        self._file.readinto(values.view(np.uint8).data)  # type: ignore[attr-defined]
        return values

    def read_all(self) -> np.ndarray:
        return self.read(0, self._length)

    def __getitem__(self, place: int) -> Any:
        """Read a number, as `bisect` does."""
        return self.read(place, 1)[0]

    def close(self) -> None:
        self._file.close()


class TemporaryColumns(contextlib.ExitStack):
    """Columns in temporary files without a name, closed at the end of a `with` block; up to 1 MiB
    needs no file.

    Without a directory, all columns are in memory.
    """

    def __init__(self, directory: Path | None = None):
        super().__init__()
        self._directory = directory

    def add(self, dtype: Any) -> Column:
        return Column(self.enter_context(self._open_file()), dtype)

    def _open_file(self) -> Any:
        if self._directory is None:
            return io.BytesIO()
        return tempfile.SpooledTemporaryFile(IN_MEMORY, dir=str(self._directory))
