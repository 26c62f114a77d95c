"""Memory that is freed is kept for the next arrays."""

import ctypes
import os
import subprocess
import sys

import pytest

if not hasattr(ctypes.CDLL(None), "mallopt"):
    pytest.skip("the C library has no mallopt", allow_module_level=True)

# pages that the system clears while arrays of 20 MB are made and freed
SCRIPT = """
import os
import resource
import threading

import numpy as np

from keras_nplm.io.memory import keep_freed_memory

os.cpu_count = lambda: 2  # with many cores nothing is changed

def count_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def make_arrays():
    for _ in range(3):
        [np.ones(5_000_000, np.float32) for _ in range(4)]

{call}
make_arrays()
before = count_faults()
make_arrays()
thread = threading.Thread(target=make_arrays)
thread.start()
thread.join()
print(count_faults() - before)
"""


def count_cleared_pages(call: str) -> int:
    command = [sys.executable, "-c", SCRIPT.format(call=call)]
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(run.stdout)


def test_kept_memory_is_used_again():
    pages = 2 * 3 * 4 * 20_000_000 // 4096
    assert count_cleared_pages("") > pages / 20
    assert count_cleared_pages("keep_freed_memory()") < pages / 100
