"""Output paths: paths that no file system accepts, locked directories, and the error of a failed
write.
"""

import contextlib
import errno
import itertools
import os
import re
from typing import Any

from keras_nplm.io.errors import InputError, RunError

STANDARD_INPUT = "-"  # in place of the name of a file
# of `io.lock`, by absolute directory: the lease, and its thread
HELD_LOCKS: dict[str, tuple[Any, int]] = {}
_LONGEST_NAME = 255  # bytes
_INVALID = {  # the path is wrong, and not the state of the disk
    *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP),
    *(errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EPERM, errno.EROFS),
}


def is_remote(path: object) -> bool:
    """Return whether a path is the URL of an object store: `gs://` or `s3://`, also as a
    `pathlib.Path`.
    """
    return (
        isinstance(path, str | os.PathLike) and re.match("(gs|s3):/", os.fspath(path)) is not None
    )


def check_output_path(path: str | os.PathLike) -> None:
    """Check that a file or directory of this path could exist: its characters and lengths, and what
    lies above it.
    """
    if is_remote(path):
        raise InputError(
            f"This output must be a local path. Received: {path}. Fix: write it locally and copy "
            "it."
        )
    absolute = os.path.abspath(path)
    try:
        if max(map(len, os.fsencode(absolute).split(b"/"))) > _LONGEST_NAME:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        with contextlib.suppress(FileNotFoundError):
            os.stat(absolute)
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        raise output_error(path, error) from error


def find_free_path(path: str | os.PathLike) -> str:
    """Return a path if it does not exist, or else one beside it that does not: `runs/mine-2` for
    `runs/mine`, `words-2.svg` for `words.svg`.
    """
    text = os.fspath(path).rstrip(os.sep)
    if os.path.basename(text) in ("", ".", ".."):
        text = os.path.join(text, "model")
    stem, ending = (text, "") if os.path.isdir(text) else os.path.splitext(text)
    numbered = (f"{stem}-{number}{ending}" for number in itertools.count(2))
    return next(name for name in itertools.chain([text], numbered) if not os.path.lexists(name))


def check_locks(path: str | os.PathLike) -> None:
    """Refuse a path in a locked directory that was deleted or replaced."""
    directory = find_lock(os.path.abspath(path))
    if directory is not None and not HELD_LOCKS[directory][0].is_lock_held_by_us:
        raise RunError(
            f"{directory} was deleted or replaced while this command wrote it. Fix: run the "
            "command again, and leave the directory in place until it ends."
        )


def find_lock(path: str) -> str | None:
    """Return the innermost locked directory that is or holds an absolute path."""
    return max(
        (held for held in HELD_LOCKS if path == held or path.startswith(held + os.sep)),
        key=len,
        default=None,
    )


def output_error(
    path: str | os.PathLike, error: OSError | ValueError, note: str = ""
) -> InputError | RunError:
    """Return the error of a failed write: InputError if the path is wrong, RunError if the disk or
    system failed.
    """
    number = getattr(error, "errno", errno.EPERM)
    reason = getattr(error, "strerror", None) or error
    reason = f"Cannot write {os.fspath(path):.300}: {reason}.{note and ' '}{note}"
    if number == errno.ENAMETOOLONG:
        return InputError(f"{reason} Fix: choose a shorter path.")
    if number in _INVALID:
        return InputError(
            f"{reason} Fix: check the path and its permissions, or choose a different path."
        )
    return RunError(f"{reason} Fix: free some space or name a different directory.")
