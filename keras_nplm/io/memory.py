"""Memory of the process: how the C library deals with what is freed."""

import ctypes

# names of `mallopt` in the C library of GNU, and their values
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_MMAP_THRESHOLD = 1 << 25  # bytes; a larger one is refused
_NEVER = (1 << 31) - 1  # bytes that are free before some go back to the system


def keep_freed_memory() -> None:
    """Let the process keep what it frees, for its next arrays, if the C library is that of GNU.

    Each training step frees arrays of megabytes and allocates them again. By default they go back
    to the system, which then clears their pages: up to a fifth of the time of a step. Call this
    before threads start.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_TRIM_THRESHOLD, _NEVER)
    mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    # threads share one pool: each would keep its own
    mallopt(_ARENA_MAX, 1)
