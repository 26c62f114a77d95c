"""Run code around the first import of a library; filter TensorFlow's start-up messages.

TensorFlow's C++ code writes them to file descriptor 2 while it is imported and when it first looks
for devices, some of them whatever `TF_CPP_MIN_LOG_LEVEL` says. During that time `grep` reads the
descriptor. It is a process and not a thread, so that nothing is lost if TensorFlow aborts. All
other lines pass, in order.
"""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

_MESSAGES = (
    r"All log messages before absl::InitializeLog\(\) is called",
    r"oneDNN custom operations are on",
    r"Could not find cuda drivers on your machine",
    r"cpu_feature_guard\.cc",
    r"^To enable the following instructions: ",
    # where no GPU is: others are faults
    r"failed call to cuInit: .*(UNKNOWN ERROR \(303\)|no CUDA-capable device)",
    r"Unable to register cu(FFT|DNN|BLAS) factory",
    r"computation placer already registered",
    r"TF-TRT Warning: Could not find TensorRT",
)


class ImportWithin(importlib.abc.MetaPathFinder):
    """Import a top-level module within a context manager when it is imported for the first time, by
    whomever.
    """

    def __init__(self, library: str, context: Callable[[], AbstractContextManager]):
        self.library = library
        self.context = context
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        spec = (
            importlib.machinery.PathFinder.find_spec(fullname) if fullname == self.library else None
        )
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_within_context(module: ModuleType) -> None:
                with self.context():
                    execute(module)

            # the loader's other methods must stay as they are
            spec.loader.exec_module = execute_within_context  # type: ignore[method-assign]
        return spec


@functools.cache  # one filter, however many commands run in this process
def hide_messages() -> None:
    """Filter standard error while TensorFlow is imported later on, unless `TF_CPP_MIN_LOG_LEVEL` is
    0.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0":
        ImportWithin("tensorflow", _import_quietly)


@contextlib.contextmanager
def _import_quietly() -> Iterator[None]:
    """Import TensorFlow and let it look for devices, without its start-up messages; other lines
    pass in order.
    """
    import subprocess  # here: `import keras_nplm` imports this module

    sys.stderr.flush()
    command = ["grep", "-a", "-v", "-E", "|".join(_MESSAGES)]
    try:
        original = os.dup(2)
        filter = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=original, start_new_session=True
        )
    except OSError:  # no standard error, no grep, or no room for one more process
        yield
        return
    assert filter.stdin is not None  # it is a pipe
    os.dup2(filter.stdin.fileno(), 2)
    filter.stdin.close()
    try:
        yield
        # a program may still choose among GPUs by CUDA_VISIBLE_DEVICES
        if not os.path.exists("/proc/driver/nvidia") or os.environ.get("CUDA_VISIBLE_DEVICES") in (
            "",
            "-1",
        ):
            # asks for the CUDA driver, and configures nothing
            sys.modules["tensorflow"].config.list_physical_devices()
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)
        os.close(original)
        filter.wait()  # so that later lines come after those of the filter
