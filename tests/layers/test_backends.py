"""The layers on another backend of Keras give what they give on TensorFlow."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import keras_nplm

pytestmark = pytest.mark.long


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_layers_compute_the_same_on_another_backend(backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    results = []
    for name in ("tensorflow", backend):
        path = tmp_path / f"{name}.npz"
        script = Path(__file__).with_name("compute_layers.py")
        root = str(Path(keras_nplm.__file__).parents[1])
        environment = {**os.environ, "KERAS_BACKEND": name, "PYTHONPATH": root}
        subprocess.run([sys.executable, script, path], env=environment, check=True)
        with np.load(path) as archive:
            results.append(dict(archive))
    expected, found = results
    assert found.keys() == expected.keys()
    assert len(found) == 120
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
