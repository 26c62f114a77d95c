"""Keras and TFDS find our classes by name; TensorFlow's notices are hidden."""

import importlib
import os
import subprocess
import sys

import pytest
import tensorflow_datasets as tfds


def run_python(program: str, level: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program in a new process, where `TF_CPP_MIN_LOG_LEVEL` is `level` or unset."""
    environment = dict(os.environ)
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    if level is not None:
        environment["TF_CPP_MIN_LOG_LEVEL"] = level
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )


@pytest.mark.long
def test_keras_loads_our_models_after_an_import(model_directory):
    path = str(model_directory / "model.keras")
    run = run_python(f"import keras, keras_nplm\nprint(keras.models.load_model({path!r}))")
    assert "ContextNetwork(order=4" in run.stdout, run.stderr


@pytest.mark.long
def test_keras_loads_our_models_after_a_name_or_register_classes(model_directory):
    """Each in a process of its own, which is forked after the imports."""
    path = str(model_directory / "model.keras")
    run = run_python(f"""
import keras_nplm, keras, os
if os.fork():
    _, status = os.wait()
    assert status == 0
    keras_nplm.register_classes()
else:
    keras_nplm.Vocabulary
print(keras.models.load_model({path!r}), flush=True)
""")
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("ContextNetwork(order=4") == 2, run.stdout
    # a notice of TensorFlow, which `keras_nplm` hides if it is imported first
    assert "This TensorFlow binary is optimized" not in run.stderr


def test_tfds_finds_our_builders_after_their_module_is_imported():
    importlib.import_module("keras_nplm.data.corpora.tfds_builders")
    assert tfds.builder_cls("brown").__module__ == "keras_nplm.data.corpora.tfds_builders"


@pytest.mark.parametrize("level", [None, "0"])
def test_import_sets_the_log_level_that_tensorflow_reads(level):
    """Unless the user has set it."""
    program = "import keras_nplm, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert run_python(program, level).stdout == f"{level or 1}\n"
