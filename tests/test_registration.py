"""Keras and TFDS find our classes by name; TensorFlow's notices are hidden."""

import os
import subprocess
import sys

import pytest


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
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import keras, keras_nplm", id="keras imported before"),
        pytest.param("import keras_nplm, keras; keras_nplm.Vocabulary", id="a public name used"),
    ],
)
def test_keras_loads_our_models(program, model_directory):
    path = str(model_directory / "model.keras")
    run = run_python(f"{program}\nprint(keras.models.load_model({path!r}))")
    assert "ContextNetwork(order=4" in run.stdout, run.stderr


@pytest.mark.long
def test_after_register_classes_keras_loads_our_models(model_directory):
    path = str(model_directory / "model.keras")
    run = run_python(
        "import keras_nplm, keras\n"
        "keras_nplm.register_classes()\n"
        f"print(keras.models.load_model({path!r}))"
    )
    assert "ContextNetwork(order=4" in run.stdout, run.stderr
    # a notice of TensorFlow, which `keras_nplm` hides if it is imported first
    assert "This TensorFlow binary is optimized" not in run.stderr


@pytest.mark.long
def test_tfds_finds_our_builders_after_their_module_is_imported():
    run = run_python(
        "import tensorflow_datasets as tfds, keras_nplm.data.corpora.tfds_builders\n"
        "print(tfds.builder_cls('brown').__module__)"
    )
    assert run.stdout == "keras_nplm.data.corpora.tfds_builders\n", run.stderr


@pytest.mark.parametrize(
    "level, expected",
    [pytest.param(None, "1", id="unset"), pytest.param("0", "0", id="set by the user")],
)
def test_import_sets_the_log_level_that_tensorflow_reads(level, expected):
    program = "import keras_nplm.cli.main, os; print(os.environ['TF_CPP_MIN_LOG_LEVEL'])"
    assert run_python(program, level).stdout == f"{expected}\n"
