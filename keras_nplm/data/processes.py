"""Call a function in parallel worker processes, which import neither Keras nor TensorFlow.

The processes of loky do not import the main program, so that a script needs no `if __name__ ==
"__main__"`. cloudpickle sends the classes of the main program and of notebooks as code.
"""

import functools
import itertools
import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from keras_nplm.io.errors import InputError, RunError, summarize_error

_MOST = 16  # processes: with more, the disk is the limit


def count_processes() -> int:
    """Return the number of CPU cores that this process may use, at most 16."""
    import loky  # here: commands without worker processes start faster

    return min(loky.cpu_count(), _MOST)


def _start_worker(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    threading.Thread(target=_end_with_parent, args=[parent], daemon=True).start()


def _end_with_parent(parent: int) -> None:
    """End this process if its parent is killed: it must not write what a later command reads."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def call_written(path: Path, item: tuple) -> Any:
    """Call the function of a file of cloudpickle, which each process reads once."""
    return _read_function(path)(*item)


@functools.lru_cache(maxsize=1)
def _read_function(path: Path) -> Callable:
    try:
        return pickle.loads(path.read_bytes())
    except (ImportError, AttributeError) as error:
        raise InputError(
            "The class of the tokenizer must be in a module that a worker process can import. "
            f"Received: {summarize_error(error)}. Fix: move the class to such a module."
        ) from error


def map_in_processes(function: Callable, items: Sequence[tuple], processes: int) -> Generator[Any]:
    """Call a function with the values of each item, and yield the results in order.

    A function that cannot be pickled is called in this process.
    """
    pickled = _try_pickle(function) if processes > 1 and len(items) > 1 else None
    if pickled is None:
        yield from itertools.starmap(function, items)
        return
    from loky import BrokenProcessPool, ProcessPoolExecutor

    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "function")
        path.write_bytes(pickled)
        executor = ProcessPoolExecutor(
            min(processes, len(items)),
            initializer=_start_worker,
            initargs=(os.getpid(),),
            env={"PYTHONSAFEPATH": "1"},  # no module of the directory replaces one of Python
        )
        try:
            # not `map`: loky prints a traceback if a worker is killed whose call was cancelled
            calls = [executor.submit(call_written, path, item) for item in items]
            for call in calls:
                yield call.result()
        except BrokenProcessPool as error:
            raise RunError(
                "A worker process that read the text died, perhaps out of memory. Finished shards "
                "are kept. Fix: run the same command again to resume."
            ) from error
        finally:
            executor.shutdown(kill_workers=True)


def _try_pickle(function: Callable) -> bytes | None:
    import cloudpickle

    try:
        return cloudpickle.dumps(function)
    except Exception:  # a tokenizer may hold anything, such as a tagger in C
        return None
