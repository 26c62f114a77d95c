"""TensorFlow's start-up messages are hidden, other lines of standard error pass; Keras finds our
classes by name.
"""

import os
import signal
import subprocess
import sys

import pytest

TENSORFLOW = """
import os, sys
class config:
    def list_physical_devices():
        os.write(2, b"E0 failed call to cuInit: INTERNAL: CUDA error: UNKNOWN ERROR (303)\\n")
        os.write(2, b"half a line")
        {end}
os.write(2, b"I0 Could not find cuda drivers on your machine\\n")
print("first", file=sys.stderr)
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written ")
os.write(2, b"to STDERR\\nE0 an ")
os.write(2, b"error\\nE0 failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH\\n")
"""
PASSED = [
    "first",
    "E0 an error",
    "E0 failed call to cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    "half a line",
]


@pytest.mark.parametrize("end, status", [("pass", 0), ("os.abort()", -signal.SIGABRT)])
def test_a_command_hides_start_up_messages_and_no_others(tmp_path, end, status):
    """`importlib.util.find_spec` is a common way to ask whether a library is installed: it imports
    nothing.
    """
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW.format(end=end), encoding="utf-8")
    code = (
        f"import contextlib, importlib.util, sys; sys.path.insert(0, {str(tmp_path)!r}); import "
        "keras_nplm.cli.main\n"
        "with contextlib.suppress(SystemExit): keras_nplm.cli.main.main(['--version'])\n"
        "assert importlib.util.find_spec('tensorflow') and 'tensorflow' not in sys.modules; "
        "import tensorflow"
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"
    }
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert run.returncode == status and run.stderr.splitlines()[:4] == PASSED


@pytest.mark.long
@pytest.mark.parametrize("program", ["import keras_nplm, keras", "import keras, keras_nplm"])
def test_keras_loads_our_models_after_import_keras_nplm(program, model_directory):
    program += f"\nprint(keras.models.load_model({str(model_directory / 'model.keras')!r}))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ContextNetwork(order=4" in run.stdout, run.stderr
