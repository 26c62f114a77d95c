"""The worker process of `keras_nplm.data.worker_pool`: a script that is started by its path.

It is not a `multiprocessing` process, which would also import the main program of its parent.

Protocol, one JSON value a line: standard input has the task with its options, then the items. Standard output has the
result of each item and, after the end of the input, the result of `finish()`.
"""

import importlib
import json
import signal
import sys
from pathlib import Path


def main() -> None:
    """Process items until the input ends. It also ends if the parent process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    sys.path.insert(0, str(Path(__file__).parents[2]))
    errors = importlib.import_module("keras_nplm.io.errors")
    importlib.import_module("keras_nplm.io.startup").hide_messages()
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(value: dict) -> None:
        print(json.dumps(value), file=answers, flush=True)

    try:
        job = json.loads(sys.stdin.readline())
        module, _, name = job["task"].partition(":")
        task = getattr(importlib.import_module(module), name)(**job["options"])
        for line in sys.stdin:
            answer(task(**json.loads(line)))
        answer(task.finish())
    except (errors.InputError, errors.RunError) as error:
        answer({"error": type(error).__name__, "message": str(error)})
    except BrokenPipeError:
        pass  # the parent process has died


if __name__ == "__main__":
    main()
