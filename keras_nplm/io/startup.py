"""Filter TensorFlow's start-up messages: oneDNN, missing CUDA libraries, CPU instructions, absl's notice.

TensorFlow's C++ code writes them to file descriptor 2 while it is imported and when it first looks for devices, some
of them whatever `TF_CPP_MIN_LOG_LEVEL` says. During that time a filter process reads the descriptor line by line. It is
a process and not a thread, so that nothing is lost if TensorFlow aborts. All other lines pass, in order.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator

from keras_nplm.io.import_hooks import run_around_import

_MESSAGES = (
    r"All log messages before absl::InitializeLog\(\) is called",
    r"oneDNN custom operations are on",
    r"Could not find cuda drivers on your machine",
    r"cpu_feature_guard\.cc",
    r"^To enable the following instructions: ",
    r"failed call to cuInit: .*(UNKNOWN ERROR \(303\)|no CUDA-capable device)",  # where no GPU is: others are faults
    r"Unable to register cu(FFT|DNN|BLAS) factory",
    r"computation placer already registered",
    r"TF-TRT Warning: Could not find TensorRT",
)
_FILTER = """
import os, re, sys
unwanted = re.compile("|".join(sys.argv[1:]).encode(), re.MULTILINE)
for line in sys.stdin.buffer:
    if not unwanted.search(line):
        os.write(1, line)
"""


@functools.cache  # one filter, however many commands run in this process
def hide_messages() -> None:
    """Filter standard error while TensorFlow is imported later on, unless `TF_CPP_MIN_LOG_LEVEL` is 0.

    `import keras_nplm` calls this. It has no effect if TensorFlow is already imported.
    """
    if "tensorflow" not in sys.modules and os.environ.get("TF_CPP_MIN_LOG_LEVEL") != "0":
        run_around_import("tensorflow", _import_quietly)


@contextlib.contextmanager
def _import_quietly() -> Iterator[None]:
    """Import TensorFlow and let it look for devices, with its start-up messages filtered."""
    with filter_standard_error():
        yield
        if not has_visible_gpu():  # a program may still choose among GPUs by CUDA_VISIBLE_DEVICES
            sys.modules["tensorflow"].config.list_physical_devices()  # asks for the CUDA driver, and configures nothing


def has_visible_gpu() -> bool:
    """Whether the NVIDIA driver is loaded, and `CUDA_VISIBLE_DEVICES` does not hide all GPUs."""
    return os.path.exists("/proc/driver/nvidia") and os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")


@contextlib.contextmanager
def filter_standard_error() -> Iterator[None]:
    """Remove TensorFlow's start-up messages from file descriptor 2; all other lines pass in order.

    Example:

    >>> with filter_standard_error():
    ...     _ = os.write(2, b"oneDNN custom operations are on. You may see")
    """
    import subprocess  # here: `import keras_nplm` imports this module

    sys.stderr.flush()
    try:
        original = os.dup(2)
    except OSError:  # no standard error
        yield
        return
    command = [sys.executable, "-I", "-S", "-c", _FILTER, *_MESSAGES]
    try:
        filter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=original, start_new_session=True)
    except OSError:  # no room for one more process
        os.close(original)
        yield
        return
    os.dup2(filter.stdin.fileno(), 2)
    filter.stdin.close()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(original, 2)
        os.close(original)
        filter.wait()  # so that later lines come after those of the filter
