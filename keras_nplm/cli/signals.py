"""SIGTERM and Ctrl-C end a command; with several workers also while TensorFlow waits for one."""

import atexit
import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from keras_nplm.cli.printing import print_error
from keras_nplm.io.errors import InputError, was_caused_by

# seconds until the main thread runs Python code again; an update that takes longer is lost
_GRACE = 1.0
_INTERRUPTED = threading.Event()


@contextlib.contextmanager
def save_on_signals(command: str, message: str) -> Iterator[None]:
    """Let SIGTERM be as Ctrl-C in the block: the command writes a checkpoint, then ends."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        _INTERRUPTED.set()  # a library may raise an error of its own instead
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if "TF_CONFIG" in os.environ:
        with _end_on_signals(command, message):
            yield
    else:
        yield


def was_interrupted() -> bool:
    """Return whether SIGTERM has interrupted the command."""
    return _INTERRUPTED.is_set()


def forget_interruption() -> None:
    """Forget SIGTERM of an earlier command: a program may run several."""
    _INTERRUPTED.clear()


@contextlib.contextmanager
def _end_on_signals(command: str, message: str) -> Iterator[None]:
    """End the process soon after SIGTERM, Ctrl-C or an error in the block, with a message.

    Python runs signal handlers in the main thread, which may wait for a worker within TensorFlow.
    So a thread reads the signals, too, and ends the process if the handler does not run soon. After
    an error the process ends before TensorFlow's own clean-up, which waits for the other workers.
    """
    received, written = socket.socketpair()
    written.setblocking(False)
    is_handled = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        is_handled.set()
        raise KeyboardInterrupt

    def watch() -> None:
        while received.recv(1):
            if not is_handled.wait(_GRACE):
                print_error(command, message)
                _end_process(130)
            is_handled.clear()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except BaseException as error:
        status = 1
        if was_caused_by(error, KeyboardInterrupt):
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
