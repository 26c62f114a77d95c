"""Run a task on many items in parallel worker processes, which import neither Keras nor TensorFlow."""

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

_MOST = 16  # processes: with more, the disk is the limit


def count_processes() -> int:
    """Return the number of CPU cores that this process may use, at most 16."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, _MOST) if sys.executable else 1


def run_in_processes(
    task: str, options: dict, items: Sequence[dict], processes: int
) -> Iterator[tuple[int | None, dict]]:
    """Run a task on each item, in this process or in several worker processes.

    Each process creates one object of the task's class with `options`. The object is called with the entries of an
    item as keyword arguments. Its method `finish()` is called after the last item. Options, items and results must be
    JSON values.

    Args:
        task: `"module:Class"`, in a module that imports neither Keras nor TensorFlow.
        options: keyword arguments of the class.
        items: keyword arguments of each call.
        processes: number of worker processes. With 1, or for a single item, this process does the work.

    Yields:
        (number of the item, result of the call), in the order in which they finish, and for each process (None, result
        of `finish()`).

    Raises:
        InputError, RunError: the task raised this error.
        RunError: a worker process died, for example because memory ran out.
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
            stack.enter_context(_start_worker(job, todo, done))
        while left:
            number, value = done.get()
            if isinstance(value, Exception):
                raise value
            left -= number is None
            yield number, value


@contextlib.contextmanager
def _start_worker(job: str, todo: queue.SimpleQueue, done: queue.SimpleQueue) -> Iterator[None]:
    """Start a worker process and a thread that feeds it. Both end with the block, finished or not."""
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
    """Send items to a worker process, one after the other, and pass on its answers."""
    try:
        _send(worker, job)
        while True:
            try:
                number, item = todo.get_nowait()
            except queue.Empty:
                break
            _send(worker, json.dumps(item))
            done.put((number, _receive(worker)))
        worker.stdin.close()
        done.put((None, _receive(worker)))
    except (InputError, RunError) as error:
        done.put((None, error))
    except (OSError, ValueError):  # a broken pipe
        done.put((None, _worker_error(worker)))


def _send(worker: subprocess.Popen, line: str) -> None:
    worker.stdin.write(line + "\n")
    worker.stdin.flush()


def _receive(worker: subprocess.Popen) -> dict:
    line = worker.stdout.readline()
    if not line.endswith("\n"):
        raise _worker_error(worker)
    answer = json.loads(line)
    if "error" in answer:
        raise getattr(errors, answer["error"])(answer["message"])
    return answer


def _worker_error(worker: subprocess.Popen) -> RunError:
    return RunError(
        f"A worker process that read the text died (exit status {worker.wait()}), perhaps out of memory. Finished "
        "shards are kept. Fix: run the same command again to resume."
    )
