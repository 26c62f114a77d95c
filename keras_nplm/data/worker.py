"""The worker process of `keras_nplm.data.worker_pool`: a script that is started by its path.

A `multiprocessing` process would also import the main program of its parent. Standard input has
pickled values: the function that makes the task, the items, None. Standard output has the result of
each item, then that of `finish()`.
"""

import importlib
import pickle
import signal
import sys
from pathlib import Path


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
        task = pickle.load(questions)()
        while (item := pickle.load(questions)) is not None:
            answer(task(*item))
        answer(task.finish())
    except (errors.InputError, errors.RunError) as error:
        answer(error)
    except (BrokenPipeError, EOFError):
        pass  # the parent process has died


if __name__ == "__main__":
    main()
