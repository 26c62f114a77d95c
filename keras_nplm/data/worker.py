"""A process that does pieces of work for `keras_nplm.data.worker_pool`: a script, started by its path.

It is no `multiprocessing` process, which would also import the main program of its parent, whatever that is.

On its standard input it has a line that names the task and its options, then a line an item; it answers each with a
line, and the end of its input with a last one. All lines are JSON.
"""

import importlib
import json
import signal
import sys
from pathlib import Path


def main() -> None:
    """Work until the input ends, as it does when the parent ends, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to answer
    sys.path.insert(0, str(Path(__file__).parents[2]))
    errors = importlib.import_module("keras_nplm.io.errors")
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
        pass  # the parent has ended


if __name__ == "__main__":
    main()
