"""TensorFlow's start-up messages are hidden, other lines of standard error pass; Keras finds our classes by name."""

import os
import signal
import subprocess
import sys

import pytest

FILTER = """
import os, sys
from keras_nplm.io.startup import filter_standard_error
with filter_standard_error():
    os.write(2, b"2026-01-01 I tensorflow/core/util/port.cc:153] oneDNN custom operations are on. You may see\\n")
    print("first", file=sys.stderr)
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\nE0 an ")
    os.write(2, b"error\\nE0 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR (303)\\n")
    os.write(2, b"E0 failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\\nhalf a line")
    {end}
print("\\nlast", file=sys.stderr)
"""
PASSED = ["first", "E0 an error", "E0 failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "half a line"]


def test_lines_before_a_crash_are_not_lost():
    run = subprocess.run([sys.executable, "-c", FILTER.format(end="os.abort()")], capture_output=True, text=True)
    assert run.returncode == -signal.SIGABRT
    assert run.stderr.splitlines()[: len(PASSED)] == PASSED


LOUD_TENSORFLOW = """
import os
class config:
    def list_physical_devices():
        os.write(2, b"E0 failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR (303)\\n")
os.write(2, b"I0 Could not find cuda drivers on your machine\\nE0 an error\\n")
"""


def test_a_command_hides_start_up_messages(tmp_path):
    """`importlib.util.find_spec` is a common way to ask whether a library is installed: it imports nothing."""
    (tmp_path / "tensorflow.py").write_text(LOUD_TENSORFLOW, encoding="utf-8")
    code = (
        f"import contextlib, importlib.util, sys; sys.path.insert(0, {str(tmp_path)!r}); import keras_nplm.cli.main\n"
        "with contextlib.suppress(SystemExit): keras_nplm.cli.main.main(['--version'])\n"
        "assert importlib.util.find_spec('tensorflow') and 'tensorflow' not in sys.modules; import tensorflow"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.stderr == "E0 an error\n"


@pytest.mark.long
@pytest.mark.parametrize("program", ["import keras_nplm, keras", "import keras, keras_nplm"])
def test_keras_loads_our_models_after_import_keras_nplm(program, model_directory):
    program += f"\nprint(keras.models.load_model({str(model_directory / 'model.keras')!r}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "NPLM(order=4" in run.stdout, run.stderr
