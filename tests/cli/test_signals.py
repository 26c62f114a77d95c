"""Signals that end a command: SIGTERM and SIGHUP are as Ctrl-C, and a program gets its handlers
back.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from keras_nplm.cli import signals
from keras_nplm.io.errors import RunError

NUMBERS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[dict]:
    """The handlers before a test, which get the signals again after it."""
    outside = {number: signal.getsignal(number) for number in NUMBERS}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would ignore it
    yield {number: signal.getsignal(number) for number in NUMBERS}
    for number, handler in outside.items():
        signal.signal(number, handler)
    signals.forget_interruption()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_and_the_handlers_are_restored(handlers, number):
    with pytest.raises(KeyboardInterrupt), signals.save_on_signals("train", "interrupted."):
        signal.raise_signal(number)
    assert {number: signal.getsignal(number) for number in NUMBERS} == handlers


def test_a_second_hangup_does_not_end_the_writing_of_a_checkpoint():
    with signals.save_on_signals("train", "interrupted."):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)


def test_an_ignored_hangup_stays_ignored():
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals.save_on_signals("train", "interrupted."):
        signal.raise_signal(signal.SIGHUP)


@pytest.mark.parametrize("several", [False, True])
def test_a_command_of_a_second_thread_leaves_signals_alone(handlers, monkeypatch, several):
    if several:
        monkeypatch.setenv("TF_CONFIG", "{}")
    inside = []

    def run() -> None:
        with signals.save_on_signals("train", "interrupted."):
            inside.append({number: signal.getsignal(number) for number in NUMBERS})

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [handlers]


@pytest.mark.parametrize("kind, status", [(TypeError, 130), (RunError, 1)])
def test_a_signal_that_a_library_drops_ends_a_worker(monkeypatch, kind, status):
    """With several workers the exit status of the process is registered."""
    monkeypatch.setenv("TF_CONFIG", "{}")
    register = Mock()
    monkeypatch.setattr("atexit.register", register)
    try:
        with pytest.raises(kind), signals.save_on_signals("train", "interrupted."):
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            raise kind("an attribute was not found")
    finally:
        os.close(signal.set_wakeup_fd(-1))  # ends the thread that reads signals
    assert register.call_args.args[1] == status
