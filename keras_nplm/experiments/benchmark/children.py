"""Child processes of the benchmarks: none outlives its parent, however the parent ends.

`measure_command` runs a command and measures its time and peak memory.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import RunError

_POLL_SECONDS = 0.02  # between two measurements of memory
_PR_SET_PDEATHSIG = 1
_FOLLOW = (  # a program that ends with its parent, as in `end_with_parent`, and becomes the command
    "import ctypes, os, sys\n"
    f"if sys.platform == 'linux': ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit(1)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


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


def measure_command(command: Sequence[str], name: str) -> dict:
    """Run a command to its end and measure it.

    Args:
        command: the program and its arguments.
        name: what runs, for the error.

    Returns:
        `seconds` of the clock; `cpu_seconds` and `peak_memory` (bytes) of the process and its children; `output`, its
        standard output.

    Raises:
        RunError: the command failed. The message has the last line of its standard error.

    Example:

    >>> measure_command([sys.executable, "-c", "print(2)"], "An example")["output"]
    '2\\n'
    """
    peak, began, cpu_began = 0, time.perf_counter(), _read_child_seconds()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        following = [sys.executable, "-I", "-S", "-c", _FOLLOW, str(os.getpid()), *command]
        with start_child(following, stdout=output, stderr=errors) as process:
            while process.poll() is None:
                peak = max(peak, _read_memory(process.pid))
                time.sleep(_POLL_SECONDS)
        seconds, cpu_seconds = time.perf_counter() - began, _read_child_seconds() - cpu_began
        output.seek(0)
        errors.seek(0)
        if process.returncode:
            lines = errors.read().decode("utf-8", "replace").strip().splitlines()
            last = f": {lines[-1][:300]}" if lines else ""
            raise RunError(f"{name} failed with exit status {process.returncode}{last}")
        text = output.read().decode("utf-8", "replace")
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_memory": peak, "output": text}


def _read_child_seconds() -> float:
    """Return the CPU seconds of the children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read_memory(pid: int, parent_command: bytes = b"") -> int:
    """Return the resident memory in bytes of a process and its children; 0 if the system has no /proc.

    `getrusage` is wrong here, because a new process starts with the peak of its parent. For the same reason a child
    with the command of its parent is not counted: it shares the memory of the parent until it starts a program.
    """
    process = Path("/proc") / str(pid)
    try:
        command = (process / "cmdline").read_bytes()
        pages = int((process / "statm").read_text(encoding="utf-8").split()[1])
        children = [(task / "children").read_text(encoding="utf-8").split() for task in (process / "task").iterdir()]
    except (OSError, IndexError):  # the process has ended
        return 0
    if command == parent_command:
        return 0
    return pages * resource.getpagesize() + sum(_read_memory(int(pid), command) for task in children for pid in task)
