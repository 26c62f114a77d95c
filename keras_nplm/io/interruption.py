"""Ctrl-C that waits for a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_NOTED: list[threading.Event] = []  # of the block that notes an interruption, if any


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle a signal as Ctrl-C: note it in a block of `note_interruption`, else raise
    KeyboardInterrupt.
    """
    if _NOTED and not _NOTED[-1].is_set():
        _NOTED[-1].set()
    else:
        raise KeyboardInterrupt


@contextlib.contextmanager
def note_interruption() -> Iterator[threading.Event]:
    """Let the first Ctrl-C in a block set an event; KeyboardInterrupt is raised after the block.

    A second Ctrl-C raises it at once. The same holds for signals whose handler is `interrupt`.
    A handler of a program of its own stays. Python lets the main thread alone handle signals: in a
    different thread the event is never set.
    """
    noted = threading.Event()
    with contextlib.ExitStack() as stack:
        if threading.current_thread() is threading.main_thread():
            _NOTED.append(noted)
            stack.callback(_NOTED.remove, noted)
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                signal.signal(signal.SIGINT, interrupt)
                stack.callback(signal.signal, signal.SIGINT, signal.default_int_handler)
        yield noted
    if noted.is_set():
        raise KeyboardInterrupt
