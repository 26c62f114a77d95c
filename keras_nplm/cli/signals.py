"""SIGTERM, SIGHUP and Ctrl-C end a command; with several workers also while TensorFlow waits for
one.
"""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from keras_nplm.cli.printing import print_error
from keras_nplm.io.errors import InputError, RunError, was_caused_by
from keras_nplm.io.interruption import interrupt

# seconds until the main thread runs Python code again; updates after the checkpoint are lost in a
# process whose update takes longer
_GRACE = 1.0
_INTERRUPTED = threading.Event()


@contextlib.contextmanager
def save_on_signals(command: str, message: str) -> Iterator[None]:
    """Let SIGTERM and SIGHUP be as Ctrl-C in the block: training writes a checkpoint, then ends.

    Python lets the main thread alone handle signals: in a different thread nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
    elif "TF_CONFIG" in os.environ:
        with _end_on_signals(command, message):
            yield
    else:
        before = _set_handlers(_interrupt)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)


def _set_handlers(handle: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Handle SIGTERM, and SIGHUP of a closed terminal; return the handlers before."""
    numbers = [signal.SIGTERM]
    # nohup ignores SIGHUP; Windows has none
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return {number: signal.signal(number, handle) for number in numbers}


def _interrupt(number: int, frame: FrameType | None) -> None:
    _INTERRUPTED.set()  # a library may raise an error of its own instead
    if number not in (signal.SIGTERM, signal.SIGINT):
        # shell and system both send SIGHUP: the second would end the writing of the checkpoint
        signal.signal(number, signal.SIG_IGN)
    interrupt(number, frame)


def is_interruption(error: BaseException) -> bool:
    """Return whether an error of a command is an interruption.

    An interruption within a library may come out as an error of its own, such as an unreadable
    file.
    """
    is_interrupted = _INTERRUPTED.is_set() or was_caused_by(error, KeyboardInterrupt)
    return is_interrupted and not isinstance(error, RunError | OSError | MemoryError)


def forget_interruption() -> None:
    """Forget the signal of an earlier command: a program may run several."""
    _INTERRUPTED.clear()


@contextlib.contextmanager
def _end_on_signals(command: str, message: str) -> Iterator[None]:
    """End the process soon after a signal, or an error in the block, with a message.

    Python runs signal handlers in the main thread, which may wait for a worker within TensorFlow.
    So a thread reads the signals, too, and ends the process if the handler does not run soon. After
    an error the process ends before TensorFlow's own clean-up, which waits for the other workers.
    After the block the handlers stay, as this clean-up must end by a signal, too.
    """
    received, written = socket.socketpair()
    written.setblocking(False)
    is_handled = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        is_handled.set()
        _interrupt(number, frame)

    def watch() -> None:
        with received:
            while received.recv(1):
                if not is_handled.wait(_GRACE):
                    print_error(command, message)
                    _end_process(130)
                is_handled.clear()

    _set_handlers(handle)
    signal.signal(signal.SIGINT, handle)
    signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except BaseException as error:
        status = 1
        if is_interruption(error):
            status = 130
        elif isinstance(error, InputError):
            status = 2
        atexit.register(_end_process, status)
        raise


def _end_process(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe or stream
            stream.flush()
    os._exit(status)
