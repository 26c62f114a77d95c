"""The worker process of `keras_nplm.data.worker_pool`: a script that is started by its path.

A `multiprocessing` process would also import the main program of its parent. Standard input has
pickled values: `sys.path` of the parent, the function that makes the task, the items, None.
Standard output has the result of each item, then that of `finish()`.
"""

import importlib
import pickle
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO


def _load_task(questions: BinaryIO, errors: ModuleType) -> Callable[[], Any]:
    try:
        return pickle.load(questions)
    except (ImportError, AttributeError) as error:
        raise errors.InputError(
            "The class of the tokenizer must be in a module that a worker process can import. "
            f"Received: {errors.summarize_error(error)}. Fix: move the class to such a module."
        ) from error


def main() -> None:
    """Process items until the input ends. It also ends if the parent process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    sys.path.insert(0, str(Path(__file__).parents[2]))
    errors = importlib.import_module("keras_nplm.io.errors")
    questions = sys.stdin.buffer
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr

    def answer(value: object) -> None:
        pickle.dump(value, answers)
        answers.flush()

    try:
        sys.path[:] = pickle.load(questions)  # modules of the user, as the parent imports them
        task = _load_task(questions, errors)()
        while (item := pickle.load(questions)) is not None:
            answer(task(*item))
        answer(task.finish())
    except (errors.InputError, errors.RunError) as error:
        answer(error)
    except (BrokenPipeError, EOFError):
        pass  # the parent process has died


if __name__ == "__main__":
    main()
