"""Lock of an output directory: one process at a time writes it, and its deletion or replacement is noticed."""

import contextlib
import dataclasses
import datetime
import errno
import json
import os
import shlex
import socket
import stat
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.paths import check_output_path, output_error

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_NAME = ".lock"
HEARTBEAT = 5.0  # seconds between two changes of the lock file's modification time
SILENCE = 60.0  # seconds without a heartbeat after which a process on a different host counts as dead
_ABANDONED = 3600.0  # age of the last heartbeat, by this host's clock, that needs no waiting
_MOST_COMMAND = 200  # characters of a recorded command
_MOST_CONTENT = 1 << 12  # bytes of a lock file


class LockedError(RunError):
    """A different process writes the directory. Exit status 1: the same command may succeed later."""


@dataclasses.dataclass(frozen=True)
class _Lock:
    content: bytes  # of the lock file, unique by its token
    thread: int | None  # that took the lock; None: the parent process did


_HELD: dict[str, _Lock] = {}  # by absolute directory


@contextlib.contextmanager
def lock_directory(directory: str | os.PathLike) -> Iterator[None]:
    """Lock a directory for writing until the end of the block; create it if it is absent.

    The lock is the file `.lock`, locked by `flock`, with the host, the process, the time and the command. It goes
    with its process, even if this is killed: a stale file stops nobody. Where `flock` does not decide, because the
    file system lacks it or the file names a different host, the modification time does. A living process renews it
    every 5 seconds, and 60 seconds without a change mean that the process is dead.

    While the lock is held, `replace_file` refuses to write into the directory if it was deleted or replaced.

    A nested call of the same thread, for the directory or one below it, does nothing. At the end of the block `.lock`
    is removed, and so are the directories that the call created, if they are empty.

    Args:
        directory: the output directory.

    Raises:
        InputError: the directory cannot be created or written.
        LockedError: a different process or thread holds the lock. It is a RunError.
        RunError: the disk is full, or the directory was deleted or replaced during the block.

    Example:

    >>> directory = getfixture("tmp_path") / "model"
    >>> with lock_directory(directory):
    ...     sorted(json.loads((directory / ".lock").read_text()))
    ['command', 'host', 'process', 'started', 'token']
    >>> directory.exists()
    False
    """
    check_output_path(directory)
    directory = os.path.abspath(directory)
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise InputError(f"The output directory must not be a file. Received: {directory}. Fix: choose a new path.")
    held = _find_lock(directory)
    if held and _HELD[held].thread == threading.get_ident():
        yield
        return
    created = [path for path in (directory, *map(str, Path(directory).parents)) if not os.path.exists(path)]
    content = describe_process()
    try:
        file = _acquire(directory, content)
    except OSError as error:
        _remove_if_empty(created)
        raise output_error(directory, error) from error
    finished = threading.Event()
    threading.Thread(target=_renew, args=(directory, finished), daemon=True).start()
    _HELD[directory] = _Lock(content, threading.get_ident())
    try:
        yield
        check_locks(directory)
    except Exception:
        check_locks(directory)  # a deleted directory is the cause of whatever error it led to
        raise
    finally:
        finished.set()
        del _HELD[directory]
        if _release(directory, file, content):
            _remove_if_empty(created)


def check_locks(path: str | os.PathLike) -> str | None:
    """Check that the locked directory above a path is still the one that was locked.

    Args:
        path: a path that is to be written.

    Returns:
        the locked directory, or None if this process holds no lock above the path.

    Raises:
        RunError: the directory was deleted or replaced.
    """
    directory = _find_lock(os.path.abspath(path))
    if directory is not None and _read(directory) != _HELD[directory].content:
        raise RunError(
            f"{directory} was deleted or replaced while this command wrote it. Fix: run the command again, and leave "
            "the directory in place until it ends."
        )
    return directory


def remove_locks() -> None:
    """Remove the lock files of this process, which is about to end without the ends of its blocks."""
    for directory, lock in list(_HELD.items()):
        if lock.thread is not None:
            _release(directory, None, lock.content)


def list_locks() -> dict[str, str]:
    """Return the locks of this process, as JSON values for the worker processes that write for it."""
    return {directory: lock.content.decode("utf-8") for directory, lock in _HELD.items()}


def adopt_locks(locks: Mapping[str, str]) -> None:
    """Check the locks of the parent process wherever this process writes.

    Args:
        locks: the result of `list_locks` in the parent process.
    """
    for directory, content in locks.items():
        if directory not in _HELD or _HELD[directory].thread is None:  # a thread of the parent holds its own lock
            _HELD[directory] = _Lock(content.encode("utf-8"), None)


def _find_lock(path: str) -> str | None:
    """The innermost locked directory that is or holds an absolute path."""
    return max((held for held in _HELD if path == held or path.startswith(held + os.sep)), key=len, default=None)


def describe_process() -> bytes:
    """Return the content of a lock file of this process: a JSON object, unique by its token."""
    command = shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]) if sys.argv else ""
    described = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "started": datetime.datetime.now(datetime.UTC).isoformat(" ", "seconds"),
        "command": command if len(command) <= _MOST_COMMAND else f"{command[:_MOST_COMMAND]}…",
        "token": uuid.uuid4().hex,
    }
    return (json.dumps(described) + "\n").encode("utf-8")


def _acquire(directory: str, content: bytes) -> int | None:
    """Create and lock the file. Return its descriptor, or None where `flock` does not work."""
    path = os.path.join(directory, LOCK_NAME)
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        os.makedirs(directory, exist_ok=True)
        try:
            try:
                file, is_new = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), True
            except FileExistsError:
                file, is_new = os.open(path, flags), False
        except FileNotFoundError:  # removed meanwhile by the process that held it
            continue
        try:
            taken, has_flock = _take(file, is_new, directory)
            if taken:
                _write(file, path, content)
        except BaseException:
            os.close(file)
            raise
        if taken and has_flock:
            return file
        os.close(file)  # without `flock` the file itself is the lock
        if taken:
            return None


def _write(file: int, path: str, content: bytes) -> None:
    """Write the whole content, or remove the file."""
    try:
        os.ftruncate(file, 0)
        if os.write(file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.unlink(path)
        raise


def _take(file: int, is_new: bool, directory: str) -> tuple[bool, bool]:
    """Whether the open file is now this process's lock, and whether `flock` protects it.

    Raises:
        LockedError: a living process holds it.
    """
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise InputError(f"{directory}/{LOCK_NAME} must be a regular file. Fix: delete it.")
    has_flock = fcntl is not None
    if has_flock:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _locked_error(directory) from error
        except OSError:  # a file system without `flock`
            has_flock = False
    if is_new or (has_flock and not os.pread(file, 1, 0)):
        return _is_in_place(file, directory), has_flock
    holder = parse_lock(_read(directory))
    is_here = holder.get("host") == socket.gethostname()
    if not (is_here and (has_flock or is_dead(holder.get("process"), directory))):
        _wait_for_silence(directory)
    if has_flock:
        return _is_in_place(file, directory), True
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, LOCK_NAME))
    return False, False  # the next attempt creates the file; only one process can


def _is_in_place(file: int, directory: str) -> bool:
    """Whether an open file still has its name: its last holder may have removed it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(os.path.join(directory, LOCK_NAME)))
    except FileNotFoundError:
        return False


def is_dead(process: object, directory: str) -> bool:
    """Return whether the process of this host that locked a directory has certainly ended."""
    if not isinstance(process, int) or fcntl is None:  # on Windows signal 0 is Ctrl-C
        return False
    if process == os.getpid():  # an earlier process of a container
        return directory not in _HELD
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


def _wait_for_silence(directory: str) -> None:
    """Return when the lock file has had no heartbeat for `SILENCE` seconds, or raise LockedError at the first."""
    before = _read_heartbeat(directory)
    if before is None or time.time() - before > _ABANDONED:
        return
    host = parse_lock(_read(directory)).get("host", "unknown")
    print(f"Waiting {SILENCE:.0f} s for a sign of the process on {host} that locked {directory}.", file=sys.stderr)
    end = time.monotonic() + SILENCE
    while time.monotonic() < end:
        time.sleep(min(1.0, SILENCE / 10))
        now = _read_heartbeat(directory)
        if now is None:
            return
        if now != before:
            raise _locked_error(directory)


def _read_heartbeat(directory: str) -> float | None:
    """The modification time of the lock file, or None if it is absent."""
    try:
        with open(os.path.join(directory, LOCK_NAME), "rb") as file:  # a network file system asks its server now
            return os.fstat(file.fileno()).st_mtime
    except FileNotFoundError:
        return None


def _renew(directory: str, finished: threading.Event) -> None:
    """Renew the modification time of the lock file until the block ends."""
    while not finished.wait(HEARTBEAT):
        with contextlib.suppress(OSError):
            os.utime(os.path.join(directory, LOCK_NAME))


def _locked_error(directory: str) -> LockedError:
    for _ in range(20):  # the holder may be writing the file
        if holder := parse_lock(_read(directory)):
            break
        time.sleep(0.05)
    return locked_error(directory, holder)


def locked_error(directory: str, holder: dict) -> LockedError:
    """Return the error of a directory that a different process writes.

    Args:
        directory: the directory.
        holder: the content of its lock file, empty if it cannot be read.
    """
    described = (
        f"process {holder.get('process')} on {holder.get('host')} since {holder.get('started')} "
        f"({holder.get('command')})"
        if holder
        else "a process that wrote no name"
    )
    return LockedError(
        f"{directory} is in use by {described}. Fix: wait until that process has ended, end it, or choose a different "
        "`--output`."
    )


def _read(directory: str) -> bytes:
    """The content of the lock file, empty if it cannot be read."""
    try:
        with open(os.path.join(directory, LOCK_NAME), "rb") as file:
            return file.read(_MOST_CONTENT)
    except OSError:
        return b""


def parse_lock(content: bytes) -> dict:
    """Return the fields of a lock file, empty if it is damaged."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _release(directory: str, file: int | None, content: bytes) -> bool:
    """Remove the lock file, while it is locked. Return whether it was still this process's."""
    is_own = _read(directory) == content
    if is_own:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(directory, LOCK_NAME))
    if file is not None:
        os.close(file)
    return is_own


def _remove_if_empty(directories: list[str]) -> None:
    """Remove empty directories, innermost first."""
    with contextlib.suppress(OSError):
        for path in directories:
            os.rmdir(path)
