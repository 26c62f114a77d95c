"""Ctrl-C that is noted: a block ends its work first."""

import signal
import threading

import pytest

from keras_nplm.io.interruption import interrupt, note_interruption


def test_the_first_ctrl_c_is_noted_and_raised_after_the_block():
    ended = []
    with pytest.raises(KeyboardInterrupt), note_interruption() as noted:
        signal.raise_signal(signal.SIGINT)
        ended.append(noted.is_set())
    assert ended == [True] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with note_interruption() as noted:
        assert not noted.is_set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_block_at_once(number):
    """SIGTERM where its handler is `interrupt`."""
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with note_interruption() as noted:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            noted.clear()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_handler_of_the_program_stays():
    received = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        with note_interruption() as noted:
            signal.raise_signal(signal.SIGINT)
            assert received == [signal.SIGINT] and not noted.is_set()
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_in_a_second_thread_leaves_ctrl_c_to_the_first():
    handlers = []

    def run() -> None:
        with note_interruption():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
