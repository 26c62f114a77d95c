"""Lock of an output directory: one process at a time writes it, and its deletion or replacement is
noticed.

The lock is the file `.lock`, a lease of filelock. Its process renews it each second. A file of a
process of this host that has ended, even if it was killed, stops nobody. A file of a different host
or container does for 60 seconds.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import HELD_LOCKS, check_locks, check_output_path, find_lock, output_error

LOCK_NAME = ".lock"
HEARTBEAT = 1.0  # seconds between two renewals of the lease
LEASE = 60.0  # seconds without a renewal after which a process counts as dead


class LockedError(InputError):
    """A different process writes the directory."""


@contextlib.contextmanager
def lock_directory(directory: str | os.PathLike) -> Iterator[None]:
    """Lock a directory for writing until the end of the block; create it if it is absent.

    A nested call of the same thread, for the directory or one below it, does nothing. The lock, and
    directories that the call created and that are empty, are removed at the end.
    """
    check_output_path(directory)
    directory = os.path.abspath(directory)
    held = find_lock(directory)
    if held and HELD_LOCKS[held][1] == threading.get_ident():
        yield
        return
    created = [
        path for path in (directory, *map(str, Path(directory).parents)) if not os.path.exists(path)
    ]
    with contextlib.ExitStack() as at_end:
        at_end.callback(_remove_if_empty, created)
        try:
            os.makedirs(directory, exist_ok=True)
            lease = acquire(directory)
        except OSError as error:
            raise output_error(directory, error) from error
        at_end.callback(lease.release)
        HELD_LOCKS[directory] = lease, threading.get_ident()
        at_end.callback(HELD_LOCKS.pop, directory)
        try:
            yield
        finally:
            check_locks(directory)  # a deleted directory is the cause of whatever error it led to


def acquire(directory: str) -> Any:
    """Return the acquired lease. A living owner is noticed at its next renewal."""
    import filelock

    path = os.path.join(directory, LOCK_NAME)
    times = set()
    lease = filelock.SoftFileLease(
        path, lease_duration=LEASE, heartbeat_interval=HEARTBEAT, mode=0o666
    )

    def is_renewed() -> bool:
        with contextlib.suppress(FileNotFoundError):
            times.add(os.stat(path).st_mtime)
        return len(times) > 1

    with contextlib.suppress(FileNotFoundError):
        # killed as it created the file
        if not os.path.getsize(path) and time.time() - os.path.getmtime(path) > LEASE:
            os.unlink(path)
    try:
        lease.acquire(timeout=LEASE + 3 * HEARTBEAT, cancel_check=is_renewed)
    except filelock.Timeout as error:
        owner = lease.owner
        described = (
            f"process {owner.pid} on {owner.hostname.partition('?')[0]}"
            if owner
            else "a different process"
        )
        raise LockedError(
            f"{directory} is in use by {described}. Fix: wait until that process has ended, end "
            "it, or choose a different `--output`."
        ) from error
    return lease


def _remove_if_empty(directories: list[str]) -> None:
    """Remove empty directories, innermost first."""
    with contextlib.suppress(OSError):
        for path in directories:
            os.rmdir(path)
