"""Memory of the process: reuse of freed memory by the C library."""

import ctypes
import os

# names of `mallopt` in the C library of GNU, and their values
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_MMAP_THRESHOLD = 1 << 25  # bytes; a larger one is refused
_LARGEST_TRIM_THRESHOLD = (1 << 31) - 1  # bytes that may be free
_MOST_CORES = 8  # more threads would wait for each other


def keep_freed_memory() -> None:
    """Let the process reuse the memory that it frees, on few cores, if the C library is that of
    GNU.

    Each training step frees arrays of megabytes and allocates them again. By default they go back
    to the system, which then clears their pages: 5 to 15% of the time of a step. Call this before
    threads start.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or (os.cpu_count() or 1) > _MOST_CORES:
        return
    mallopt(_TRIM_THRESHOLD, _LARGEST_TRIM_THRESHOLD)
    mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    # threads share one pool: each would keep its own
    mallopt(_ARENA_MAX, 1)
