"""Replicas and workers reach the weights of one device; a lost worker can be restarted."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.cli.main import main
from keras_nplm.training.distribution import broadcast_from_chief, open_strategy

OPTIONS = (
    "--dropout 0 --embedding-dropout 0 --order 3 --embedding-dim 8 --hidden-units 8 --epochs 2 --batch-size 256".split()
)
TRAIN = """
import sys
import keras_nplm.training.checkpoint as checkpoint
from keras_nplm.cli.main import main
checkpoint.SECONDS_PER_SAVE = 0.5
sys.exit(main(["train", *sys.argv[1:]]))
"""


def _weights(directory: Path) -> list[np.ndarray]:
    return keras.models.load_model(directory / "model.keras", compile=False).get_weights()


@pytest.fixture(scope="module")
def replicas() -> dict:
    """Differences between training on two logical CPUs and on one."""
    script = Path(__file__).with_name("replicas.py")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.long
def test_replicas_reach_the_weights_of_one_device(replicas):
    assert replicas["replicas"] == 2 and len(replicas["differences"]) == 12
    for pair, difference in replicas["differences"].items():
        limit = 5e-5 if pair.startswith("energy") else 1e-6  # the gradient of v sums B k rounded terms
        assert difference["weights"] < limit, pair
        assert difference["logs"] < 1e-5, pair  # perplexity over all replicas, with an odd last batch of validation


@pytest.mark.long
def test_options_that_replicas_cannot_use_are_refused(replicas):
    assert set(replicas["refused"]) == {"gradient_accumulation_steps", "steps_per_execution", "jit_compile"}
    for name, said in replicas["refused"].items():
        assert said.startswith(f"`{name}` must be ") and "tf.distribute" in said


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    words, random = "the cat sat on a mat with one dog and no hat".split(), np.random.default_rng(0)
    lines = [" ".join(random.choice(words, random.integers(3, 9))) for _ in range(2500)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _workers(text: Path, directory: Path) -> list[subprocess.Popen]:
    """Two workers of one training, each with a directory of its own."""
    ports = []
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            found = stack.enter_context(socket.socket())
            found.bind(("localhost", 0))
            ports.append(found.getsockname()[1])
    started = []
    for index in range(2):
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        command = [sys.executable, "-c", TRAIN, "--train", text, "--output", directory / f"worker{index}", *OPTIONS]
        with open(directory / f"worker{index}.log", "ab") as log:
            environment = os.environ | {"TF_CONFIG": config}
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    return started


def _log(directory: Path, index: int) -> str:
    return (directory / f"worker{index}.log").read_text(errors="replace")


@pytest.mark.long
def test_killed_worker_is_restarted_and_training_resumes(text, tmp_path):
    assert main(["train", "--train", str(text), "--output", str(tmp_path / "alone"), *OPTIONS]) == 0
    first, second = _workers(text, tmp_path)
    try:
        while not (tmp_path / "worker0" / "last.npz").exists() and first.poll() is None:
            time.sleep(0.1)  # until the chief has saved a checkpoint, within an epoch
        assert first.poll() is None, _log(tmp_path, 0)
        second.send_signal(signal.SIGKILL)
        assert first.wait() == 1, _log(tmp_path, 0)
    finally:
        for worker in (first, second):
            worker.kill()
            worker.wait()
    last = _log(tmp_path, 0).splitlines()[-1]
    assert "A worker was lost" in last and "run the same command again on all workers" in last
    for worker in _workers(text, tmp_path):
        assert worker.wait() == 0, _log(tmp_path, 0) + _log(tmp_path, 1)
    assert "this worker has finished; worker 0 wrote the model" in _log(tmp_path, 1)
    assert not (tmp_path / "worker1" / "model.keras").exists()
    for left, right in zip(_weights(tmp_path / "alone"), _weights(tmp_path / "worker0"), strict=True):
        np.testing.assert_allclose(left, right, atol=2e-6)


@pytest.mark.parametrize(
    "described, message",
    [
        ("", "needs the environment variable TF_CONFIG"),
        ("{", "must describe a cluster"),
        ('{"cluster": {"worker": ["a:1"]}}', "must describe a cluster"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}}', "this process among them"),
        ('{"cluster": {"ps": [], "worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}', "workers only"),
    ],
)
def test_invalid_cluster_is_refused(monkeypatch, described, message):
    monkeypatch.setenv("TF_CONFIG", described)
    with pytest.raises(InputError, match=message):
        open_strategy("multi-worker")


def test_strategies_without_their_devices_are_refused(monkeypatch, tmp_path, capsys):
    with pytest.raises(InputError, match="`strategy` must be one of auto, one-device"):
        open_strategy("several")
    with pytest.raises(InputError, match="`strategy` mirrored needs two devices or more"):
        open_strategy("mirrored")
    workers = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'
    monkeypatch.setenv("TF_CONFIG", workers)
    with pytest.raises(InputError, match="before TensorFlow runs an operation"):
        open_strategy("auto")  # the cluster of TF_CONFIG is found
    monkeypatch.setattr("keras.__version__", "3.99.0")
    with pytest.raises(InputError, match=r"needs Keras 3\.\d+ or earlier, .* Received: 3.99.0"):
        open_strategy("auto")


def test_one_worker_receives_its_own_arrays():
    arrays = [np.arange(3), np.float32(2), np.zeros((0, 2))]
    for given, taken in zip(arrays, broadcast_from_chief(open_strategy("one-device"), arrays), strict=True):
        np.testing.assert_array_equal(given, taken)
