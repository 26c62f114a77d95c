"""Run a task on many items in parallel worker processes, which import neither Keras nor
TensorFlow.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import RunError

_MOST = 16  # processes: with more, the disk is the limit


def count_processes() -> int:
    """Return the number of CPU cores that this process may use, at most 16."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores, _MOST) if sys.executable else 1


def can_send(value: object) -> bool:
    """Return whether a worker process can load an object.

    It cannot import the class of an object from the main program or from within a function.
    """
    if type(value).__module__ == "__main__":
        return False
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def run_in_processes(
    make_task: Callable[[], Any], items: Sequence[tuple], processes: int
) -> Iterator[tuple[int | None, Any]]:
    """Run a task on each item, in this process or in several worker processes.

    Yields (number of the item, result) as they finish, and for each process (None, result of
    `finish()`).
    """
    if processes == 1 or len(items) < 2:
        task = make_task()
        for number, item in enumerate(items):
            yield number, task(*item)
        yield None, task.finish()
        return
    todo: queue.SimpleQueue = queue.SimpleQueue()
    done: queue.SimpleQueue = queue.SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    with contextlib.ExitStack() as stack:
        left = min(processes, len(items))
        for _ in range(left):
            worker = _Worker()
            thread = threading.Thread(target=_feed, args=(worker, make_task, todo, done))
            stack.callback(_stop_worker, worker, thread)
            thread.start()
        while left:
            number, value = done.get()
            if isinstance(value, Exception):
                raise value
            left -= number is None
            yield number, value


class _Worker:
    """A worker process with its pipes."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout  # both are pipes
        self._questions = self.process.stdin
        self._answers = self.process.stdout

    def send(self, value: object) -> None:
        self._questions.write(pickle.dumps(value))
        self._questions.flush()

    def receive(self) -> Any:
        """Return a result or an error."""
        return pickle.load(self._answers)

    def close(self) -> None:
        self._answers.close()
        with contextlib.suppress(OSError):
            self._questions.close()


def _stop_worker(worker: _Worker, thread: threading.Thread) -> None:
    worker.process.kill()
    worker.process.wait()
    thread.join()
    worker.close()


def _feed(
    worker: _Worker,
    make_task: Callable[[], Any],
    todo: queue.SimpleQueue,
    done: queue.SimpleQueue,
) -> None:
    """Send items to a worker process, one after the other, and pass on its answers."""
    try:
        worker.send(sys.path)
        worker.send(make_task)
        with contextlib.suppress(queue.Empty):
            while True:
                number, item = todo.get_nowait()
                worker.send(item)
                done.put((number, worker.receive()))
        worker.send(None)
        done.put((None, worker.receive()))
    except (OSError, ValueError, EOFError, pickle.UnpicklingError):  # a broken pipe
        message = (
            f"A worker process that read the text died (exit status {worker.process.wait()}), "
            "perhaps out of memory. Finished shards are kept. Fix: run the same command again to "
            "resume."
        )
        done.put((None, RunError(message)))
    except Exception as error:  # otherwise `run_in_processes` would wait for ever
        done.put((None, error))
