"""Processes made by fork: the threads of TensorFlow are not in them, so that a graph would wait for
ever.
"""

import os
import sys

from keras_nplm.io.errors import RunError

_inherited: list[str] = []  # what a fork of this process has cut off: "TensorFlow", or nothing


def refuse_after_fork(name: str) -> None:
    """Refuse to run a graph in a process that was made by fork after TensorFlow had started."""
    if _inherited:
        raise RunError(
            f"{name} must not run in a process made by fork after TensorFlow has started: it would "
            "wait for ever. Fix: use `multiprocessing.get_context('spawn')`. Or make the "
            "`LanguageModel.scorer()` of a network with a full output before the fork: it runs in "
            "NumPy."
        )


def _note_fork() -> None:
    if _is_tensorflow_running():
        _inherited[:] = ["TensorFlow"]


def _is_tensorflow_running() -> bool:
    """Return whether TensorFlow has been imported and has started its threads."""
    module = sys.modules.get("tensorflow.python.eager.context")
    if module is None:
        return False
    context = module.context_safe()
    return context is not None and context._context_handle is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
