"""Standard input in place of a file: a stream that is read once, or a temporary file."""

import atexit
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import STANDARD_INPUT
from keras_nplm.io.text import explain_read_errors

_taken: Any = None  # the stream that was taken
_copy: Path | None = None  # its copy, which is removed as the process ends


def take_standard_input() -> BinaryIO:
    """Return standard input as a binary stream, for the one argument of a command that reads it."""
    global _taken, _copy
    if _taken is sys.stdin:
        raise InputError(
            f"`{STANDARD_INPUT}` (standard input) must stand for one file. Received: two. Fix: "
            "save one of them to a file, and name it."
        )
    _taken = sys.stdin
    _copy = None
    return sys.stdin.buffer


def save_standard_input() -> Path:
    """Save standard input to a temporary file, which can be read several times, and return it."""
    global _copy
    if _copy is None or _taken is not sys.stdin:
        stream = take_standard_input()
        directory = tempfile.mkdtemp(prefix="keras_nplm-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        path = Path(directory, "standard-input")
        with explain_read_errors(STANDARD_INPUT), open(path, "wb") as file:
            shutil.copyfileobj(stream, file)
        _copy = path
    return _copy


def is_saved_input(path: str) -> bool:
    """Return whether a path is that of the copy."""
    return _copy is not None and path == str(_copy)
