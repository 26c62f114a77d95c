"""Work in pieces, spread over processes that import neither Keras nor TensorFlow."""

import contextlib
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import keras_nplm.io.errors as errors
from keras_nplm.io.errors import InputError, RunError

_MOST = 16  # processes: more of them wait for the disk


def count_processes() -> int:
    """As many processes as there are cores for this one, up to 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST) if sys.executable else 1


def run_in_processes(
    task: str, options: dict, items: Sequence[dict], processes: int
) -> Iterator[tuple[int | None, dict]]:
    """Do a task for each item, in this process or in several.

    Args:
        task: `"module:Class"`, of a module that imports neither Keras nor TensorFlow. An object of the class is made
            in each process with `options`; it is called with the entries of an item, and its `finish()` when no item
            is left. Both return what JSON can hold.
        options: what JSON can hold.
        items: what JSON can hold.
        processes: 1: this process does the work.

    Yields:
        the number of an item and what the call returned, as they are done; for each process None and what `finish()`
        returned.

    Raises:
        InputError, RunError: as the task does.
        RunError: a process was lost, as one is that the system has no memory for.
    """
    if processes == 1 or len(items) < 2:
        module, _, name = task.partition(":")
        call = getattr(importlib.import_module(module), name)(**options)
        for number, item in enumerate(items):
            yield number, call(**item)
        yield None, call.finish()
        return
    todo, done = queue.SimpleQueue(), queue.SimpleQueue()
    for numbered in enumerate(items):
        todo.put(numbered)
    job = json.dumps({"task": task, "options": options})
    with contextlib.ExitStack() as stack:
        left = min(processes, len(items))
        for _ in range(left):
            stack.enter_context(_working(job, todo, done))
        while left:
            number, value = done.get()
            if isinstance(value, Exception):
                raise value
            left -= number is None
            yield number, value


@contextlib.contextmanager
def _working(job: str, todo: queue.SimpleQueue, done: queue.SimpleQueue) -> Iterator[None]:
    """A process, and a thread that feeds it; both end with the block, whether they are done or not."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    thread = threading.Thread(target=_feed, args=(worker, job, todo, done))
    thread.start()
    try:
        yield
    finally:
        worker.kill()
        worker.wait()
        thread.join()
        worker.stdout.close()
        with contextlib.suppress(OSError):
            worker.stdin.close()


def _feed(worker: subprocess.Popen, job: str, todo: queue.SimpleQueue, done: queue.SimpleQueue) -> None:
    """Hand items to a process, one after the other, and pass on its answers."""
    try:
        _tell(worker, job)
        while True:
            try:
                number, item = todo.get_nowait()
            except queue.Empty:
                break
            _tell(worker, json.dumps(item))
            done.put((number, _answer(worker)))
        worker.stdin.close()
        done.put((None, _answer(worker)))
    except (InputError, RunError) as error:
        done.put((None, error))
    except (OSError, ValueError):  # its pipe is broken
        done.put((None, _lost(worker)))


def _tell(worker: subprocess.Popen, line: str) -> None:
    worker.stdin.write(line + "\n")
    worker.stdin.flush()


def _answer(worker: subprocess.Popen) -> dict:
    line = worker.stdout.readline()
    if not line.endswith("\n"):
        raise _lost(worker)
    answer = json.loads(line)
    if "error" in answer:
        raise getattr(errors, answer["error"])(answer["message"])
    return answer


def _lost(worker: subprocess.Popen) -> RunError:
    return RunError(
        f"A process that read the text was lost (exit status {worker.wait()}): is there memory enough? "
        "What it had finished is kept: give the same command again to go on."
    )
