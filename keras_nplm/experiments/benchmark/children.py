"""Child processes of the benchmarks: none outlives its parent, however the parent ends."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def start_child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """Start a process that is killed when the block ends, by an exception such as KeyboardInterrupt too.

    Args:
        command: the program and its arguments.
        options: keyword arguments of `subprocess.Popen`.

    Example:

    >>> with start_child([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
    ...     pass
    >>> child.returncode
    -9
    """
    child = subprocess.Popen(command, **options)
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            with contextlib.suppress(OSError):  # a request that the child did not read
                if pipe:
                    pipe.close()


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, even by SIGKILL. Only Linux can.

    Ctrl-C is left to the parent: it kills its children.

    Args:
        parent: process id of the parent.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel was told
        sys.exit(1)
