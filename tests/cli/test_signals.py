"""SIGTERM and Ctrl-C end a worker whose main thread waits within a library, or whose libraries wait at its end."""

import signal
import subprocess
import sys
import time

import pytest

START = """
import argparse, atexit, ctypes, sys, threading, time
import keras_nplm.cli.signals as signals
from keras_nplm.io.errors import InputError
from keras_nplm.io.lock import lock_directory

def wait_in_c():  # a mutex is not interrupted by a signal, as a collective operation is not
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

signals._GRACE = 0.3
atexit.register(time.sleep, 60)  # as TensorFlow waits for other workers
options = argparse.Namespace(command="train", after_interrupt=". Run it again.")
with signals.end_on_signals(options), lock_directory(sys.argv[1]):
    threading.Timer(0.1, print, ["started"], {"flush": True}).start()  # when the body waits
    {}
"""


def _start(body: str, directory) -> subprocess.Popen:
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process = subprocess.Popen([sys.executable, "-c", START.replace("{}", body), directory / "m"], **pipes)
    assert process.stdout.readline() == "started\n"
    return process


def _end(process: subprocess.Popen) -> str:
    """Wait for the end of a process, and return its standard error."""
    try:
        return process.communicate(timeout=40)[1]
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_process_that_waits_in_c(tmp_path, number):
    process = _start("wait_in_c()", tmp_path)
    assert (tmp_path / "m" / ".lock").exists()
    began = time.monotonic()
    process.send_signal(number)
    assert _end(process) == "keras-nplm train: interrupted. Run it again.\n"
    assert process.returncode == 130 and 0.3 <= time.monotonic() - began < 40
    assert not (tmp_path / "m" / ".lock").exists()


def test_signal_interrupts_python_code_which_may_take_its_time(tmp_path):
    body = """
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        time.sleep(0.6)
        print("wrote a checkpoint", file=sys.stderr)
        raise SystemExit(7) from None
"""
    process = _start(body, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert _end(process) == "wrote a checkpoint\n"


@pytest.mark.parametrize(
    "error, status", [("KeyboardInterrupt", 130), ("InputError('x')", 2), ("RuntimeError('x')", 1)]
)
def test_error_ends_the_process_before_libraries_wait(tmp_path, error, status):
    process = _start(f"time.sleep(0.2); raise {error}", tmp_path)
    assert error.split("(")[0] in _end(process)
    assert process.returncode == status


def test_second_signal_ends_a_handler_that_waits_in_c(tmp_path):
    body = """
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        threading.Timer(0.1, print, ["handled"], {"flush": True}).start()
        wait_in_c()
"""
    process = _start(body, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "handled\n"
    process.send_signal(signal.SIGTERM)
    _end(process)
    assert process.returncode == 130
