"""Run a task on many items in parallel worker processes, which import neither Keras nor
TensorFlow.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()

    def run(number: int, item: tuple) -> tuple[int, Any]:
        worker = idle.get()  # there are as many workers as threads
        try:
            return number, worker.ask(item)
        finally:
            idle.put(worker)

    workers = [_Worker() for _ in range(min(processes, len(items)))]
    # after an error the workers are killed first, so that no thread waits for an answer
    with ThreadPoolExecutor(len(workers)) as threads, contextlib.ExitStack() as stack:
        for worker in workers:
            stack.callback(worker.stop)
        for worker in workers:
            worker.send(sys.path)
            worker.send(make_task)
            idle.put(worker)
        futures = [threads.submit(run, number, item) for number, item in enumerate(items)]
        for future in as_completed(futures):
            yield future.result()
        for value in threads.map(_Worker.ask, workers, [None] * len(workers)):
            yield None, value


class _Worker:
    """A worker process with its pipes; see `worker.py`."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin and self._process.stdout  # both are pipes
        self._questions = self._process.stdin
        self._answers = self._process.stdout

    def send(self, value: object) -> None:
        message = pickle.dumps(value)
        with self._explain_death():
            self._questions.write(message)
            self._questions.flush()

    def ask(self, item: tuple | None) -> Any:
        """Return the result of an item, or of None that of `finish()`, or raise its error."""
        self.send(item)
        with self._explain_death():
            answer = pickle.load(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextlib.contextmanager
    def _explain_death(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, EOFError, pickle.UnpicklingError) as error:  # a broken pipe
            raise RunError(
                f"A worker process that read the text died (exit status {self._process.wait()}), "
                "perhaps out of memory. Finished shards are kept. Fix: run the same command again "
                "to resume."
            ) from error

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._answers.close()
        with contextlib.suppress(OSError):
            self._questions.close()
