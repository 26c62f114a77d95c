"""Output paths: paths that no file system accepts, and the error of a failed write."""

import contextlib
import errno
import os
import re
from pathlib import Path

from keras_nplm.io.errors import InputError, RunError

# the path is wrong, and not the state of the disk
_INVALID = {
    errno.EACCES,
    errno.EEXIST,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EPERM,
    errno.EROFS,
}


def is_remote(path: object) -> bool:
    """Return whether a path is the URL of an object store: `gs://` or `s3://`, also as a `pathlib.Path`.

    Example:

    >>> is_remote("s3://bucket/run"), is_remote(Path("s3://bucket/run")), is_remote("runs/s3")
    (True, True, False)
    """
    return isinstance(path, str | os.PathLike) and re.match("(gs|s3):/", os.fspath(path)) is not None


def check_output_path(path: str | os.PathLike) -> None:
    """Check that a file or directory of this path could exist: its characters, its lengths, and what lies above it.

    Raises:
        InputError: the path is remote or holds a NUL character, a name or the path is too long, it lies below a file,
            its symbolic links form a circle, or a directory above it may not be read.

    Example:

    >>> file = getfixture("tmp_path") / "text.txt"
    >>> file.touch()
    >>> check_output_path(file.parent / "new" / "model")
    >>> check_output_path("x" * 300)
    Traceback (most recent call last):
    keras_nplm.io.errors.InputError: Cannot write xxxxxxxx…xxxxxxxx: File name too long. Fix: choose a shorter path.
    """
    text = os.fspath(path)
    if "\0" in text:
        raise InputError(f"An output path must not hold a NUL character. Received: {text!r}. Fix: remove it.")
    if is_remote(text):
        raise InputError(f"This output must be a local path. Received: {text}. Fix: write it locally and copy it.")
    absolute = Path(os.path.abspath(text))
    above, is_missing = Path(absolute.anchor), False  # the deepest directory that exists
    try:
        for name in absolute.parts[1:]:
            try:
                os.stat(above / name)  # of a missing directory's content: is the name too long?
                above = above if is_missing else above / name
            except FileNotFoundError as error:
                if not is_missing and (above / name).is_symlink() and above / name != absolute:
                    raise InputError(
                        f"Cannot write {_shorten(path)}: the target of the link {above / name} does not exist. Fix: "
                        "create the target, or choose a different path."
                    ) from error
                is_missing = True
        with contextlib.suppress(FileNotFoundError):
            os.stat(absolute)  # the length of the whole path
    except NotADirectoryError as error:
        raise InputError(
            f"An output path must not lie below a file. Received: {_shorten(path)}, but {_shorten(above)} is a file. "
            "Fix: choose a different path."
        ) from error
    except OSError as error:
        raise output_error(path, error) from error


def output_error(
    path: str | os.PathLike, error: OSError, note: str = "", *, was_writable: bool = False
) -> InputError | RunError:
    """Return the error of a failed write: InputError if the path is wrong, RunError if the disk or system failed.

    Args:
        path: the path.
        error: the cause.
        note: a sentence to insert.
        was_writable: the path was written before, so the error cannot be an InputError.

    Example:

    >>> output_error("model", OSError(28, "No space left on device"))
    RunError('Cannot write model: No space left on device. Fix: free some space or name a different directory.')
    """
    reason = f"Cannot write {_shorten(path)}: {error.strerror or error}.{note and ' '}{note}"
    if error.errno == errno.ENAMETOOLONG:
        return InputError(f"{reason} Fix: choose a shorter path.")
    if error.errno in _INVALID and not was_writable:
        return InputError(f"{reason} Fix: check the path and its permissions, or choose a different path.")
    return RunError(f"{reason} Fix: free some space or name a different directory.")


def _shorten(path: str | os.PathLike) -> str:
    text = os.fspath(path)
    return text if len(text) <= 200 else f"{text[:8]}…{text[-8:]}"
