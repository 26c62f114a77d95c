"""SIGTERM and Ctrl-C end a command with several workers, also within a TensorFlow operation that waits for a worker."""

import argparse
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
from keras_nplm.io.errors import InputError, follows_error
from keras_nplm.io.lock import remove_locks

_GRACE = 1.0  # seconds until the main thread runs Python code again; an update that takes longer is lost


@contextlib.contextmanager
def end_on_signals(options: argparse.Namespace) -> Iterator[None]:
    """End the process soon after SIGTERM, Ctrl-C or an error in the block.

    Python runs signal handlers in the main thread, between two instructions. A main thread that waits for another
    worker within TensorFlow never gets there. So the interpreter also writes each signal to a socket, at once, and a
    thread reads it. If the handler does not run soon, the thread prints the message of an interruption, removes the
    locks and ends the process. Otherwise the KeyboardInterrupt of the handler ends the block as always: a checkpoint
    is written.

    After an error the process ends before TensorFlow's own clean-up, which waits for the other workers.

    Args:
        options: of the command: its name and its message of an interruption.
    """
    received, written = socket.socketpair()
    written.setblocking(False)
    is_handled = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        is_handled.set()
        raise KeyboardInterrupt

    numbers = signal.SIGTERM, signal.SIGINT
    previous = [signal.signal(number, handle) for number in numbers]
    before = signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(received, is_handled, options), daemon=True).start()
    try:
        yield
    except BaseException as error:
        status = 130 if follows_error(error, KeyboardInterrupt) else 2 if isinstance(error, InputError) else 1
        atexit.register(_end_process, status)
        raise
    finally:
        signal.set_wakeup_fd(before)
        written.close()
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)


def _watch(received: socket.socket, is_handled: threading.Event, options: argparse.Namespace) -> None:
    """End the process if the main thread does not handle a signal in time."""
    with received:
        while number := received.recv(1):
            if number[0] in (signal.SIGTERM, signal.SIGINT):
                if not is_handled.wait(_GRACE):
                    print_error(options.command, f"interrupted{options.after_interrupt}")
                    remove_locks()
                    _end_process(130)
                is_handled.clear()


def _end_process(status: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # a closed pipe or stream
            stream.flush()
    os._exit(status)
