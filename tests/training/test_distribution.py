"""Replicas and workers reach the weights of one device; a lost worker can be restarted."""

import contextlib
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.training.distribution as distribution
from keras_nplm import InputError
from keras_nplm.cli.main import main
from keras_nplm.io.errors import RunError
from keras_nplm.training.distribution import fail_if_worker_is_lost, open_strategy

OPTIONS = (
    "--no-interpolated --dropout 0 --set embedding_dropout=0 --order 3 --embedding-dim 8 "
    "--hidden-units 8"
)
OPTIONS += " --epochs 2 --set batch_size=256"
# without report.html and logs of TensorBoard, most of a short run
TRAIN = """
import gc
import json
import os
import sys
gc.set_threshold(50_000, 10, 10)  # as in tests/conftest.py
from keras_nplm.cli.imports import leave_out_optional_libraries
from keras_nplm.cli.main import main
with leave_out_optional_libraries():  # as a command does
    import keras
    import keras_nplm.training.fit as fit
    import keras_nplm.training.pace as pace
    import keras_nplm.training.train as train
fit.SECONDS_PER_SAVE = 0.5
train.write_run_report = lambda *arguments: None
fit.LanguageModelBoard = lambda *arguments, **options: keras.callbacks.Callback()
if "TF_CONFIG" in os.environ:  # --minutes 2: two epochs by the clock of worker 0, four by that of 1
    seconds_of_an_epoch = (50.0, 25.0)[json.loads(os.environ["TF_CONFIG"])["task"]["index"]]
    pace.measure_seconds = lambda *arguments: (seconds_of_an_epoch, 1.0)
sys.exit(main(sys.argv[1:]))
"""
_PATIENCE = 120  # seconds, on a busy machine
WORKERS = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}'


@pytest.mark.long
def test_replicas_reach_the_weights_of_one_device():
    """Training on two logical CPUs and on one."""
    command = [sys.executable, "-m", "tests.training.replicas"]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert run.returncode == 0, run.stderr
    replicas = json.loads(run.stdout)
    assert replicas["replicas"] == 2 and len(replicas["differences"]) == 5
    for name, difference in replicas["differences"].items():
        limit = 5e-5 if name == "energy" else 1e-6  # the gradient of v sums B k rounded terms
        assert difference["weights"] < limit, name
        # perplexity over all replicas, with an odd last batch of validation
        assert difference["logs"] < 1e-5, name


@pytest.fixture(scope="module")
def text(tmp_path_factory, short_text) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(5 * short_text.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def _choose_configs() -> list[str]:
    """Return the TF_CONFIG of two workers at free ports."""
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    cluster = {"worker": [f"localhost:{free.getsockname()[1]}" for free in sockets]}
    for free in sockets:
        free.close()
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    return [json.dumps({"cluster": cluster, "task": task}) for task in tasks]


def _list_arguments(text: Path, output: Path, flags: str = OPTIONS) -> list[str]:
    return ["train", *flags.split(), "--train", str(text), "--output", str(output)]


def _start_worker(config: str, arguments: list[str], log: Path) -> subprocess.Popen:
    """Start a worker as a command does."""
    with open(log, "ab") as file:
        run = dict(env=os.environ | {"TF_CONFIG": config}, stdout=file, stderr=file)
        return subprocess.Popen([sys.executable, "-c", TRAIN, *arguments], **run)


def _train_as_worker(config: str, arguments: list[str], log: Path) -> None:
    os.environ["TF_CONFIG"] = config
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["-c", *arguments]
    exec(TRAIN, {})


def _fork_worker(config: str, arguments: list[str], log: Path) -> BaseProcess:
    """Start a worker as a fork of a process that has imported TensorFlow, and used nothing of
    it.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["keras_nplm.training.train"])
    worker = forks.Process(target=_train_as_worker, args=(config, arguments, log))
    worker.start()
    return worker


@contextlib.contextmanager
def _start_both(
    text: Path,
    directory: Path,
    *starts: Callable,
    outputs: Sequence[str] = ("worker0", "worker1"),
    flags: str = OPTIONS,
):
    """Start two workers, each by its function; end them after the block."""
    workers = []
    try:
        for index, (start, config) in enumerate(zip(starts, _choose_configs(), strict=True)):
            arguments = _list_arguments(text, directory / outputs[index], flags)
            workers.append(start(config, arguments, directory / f"worker{index}.log"))
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            end = worker.wait if isinstance(worker, subprocess.Popen) else worker.join
            end()


def _log(directory: Path, index: int) -> str:
    return (directory / f"worker{index}.log").read_text(errors="replace")


def _wait_for_checkpoint(directory: Path, chief: subprocess.Popen) -> None:
    """Wait until the chief has saved a checkpoint within an epoch."""
    while not (directory / "worker0" / "last.npz").exists() and chief.poll() is None:
        time.sleep(0.1)
    assert chief.poll() is None, _log(directory, 0)


def _train_together(text: Path, directory: Path, **options) -> Path:
    """Train with two workers to the end, and return the chief's directory."""
    with _start_both(text, directory, _fork_worker, _fork_worker, **options) as workers:
        for worker in workers:
            worker.join(_PATIENCE)
            assert worker.exitcode == 0, _log(directory, 0) + _log(directory, 1)
    return directory / "worker0"


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_lost_worker_is_restarted_and_training_resumes_bit_for_bit(
    text, tmp_path, tmp_path_factory, load_weights, assert_same_weights
):
    with _start_both(text, tmp_path, _start_worker, _fork_worker) as (first, second):
        _wait_for_checkpoint(tmp_path, first)
        second.kill()
        # the first worker notices the loss after 10 to 20 seconds
        uninterrupted = _train_together(text, tmp_path_factory.mktemp("uninterrupted"))
        assert first.wait(timeout=_PATIENCE) == 1, _log(tmp_path, 0)
    last = _log(tmp_path, 0).splitlines()[-1]
    assert (
        "A worker was lost (" in last
        and "Fix: run the same command again on all workers to resume." in last
    )
    assert_same_weights(uninterrupted, _train_together(text, tmp_path))
    assert "this worker has finished; worker 0 wrote the model" in _log(tmp_path, 1)
    assert not (tmp_path / "worker1" / "model.keras").exists()
    assert main(_list_arguments(text, tmp_path / "alone")) == 0
    for one, two in zip(load_weights(tmp_path / "alone"), load_weights(uninterrupted), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "outputs, flags",
    [
        pytest.param(("worker0", "worker0"), "--epochs 1", id="one directory"),
        pytest.param(("worker0", "worker1"), "--minutes 2", id="two directories, and a plan"),
    ],
)
def test_workers_train_a_hybrid(tmp_path, short_text, outputs, flags):
    """Each reads the n-gram model, and has the options of the chief."""
    flags += " --token character --order 4 --embedding-dim 8 --hidden-units 8 --set batch_size=256"
    flags += " --set optimizer=sgd weight_average=0 --learning-rate 1"
    chief = _train_together(short_text, tmp_path, outputs=outputs, flags=flags)
    written = json.loads((chief / "config.json").read_text())
    for output in outputs:
        assert (tmp_path / output / "components" / "1" / "ngrams.npz").exists()
        config = json.loads((tmp_path / output / "config.json").read_text())
        assert config["network"] == {"kind": "hybrid"} and config["epochs"] == written["epochs"]
    assert json.loads((chief / "metrics.json").read_text())["kneser_ney"]["test"] > 1
    assert "Resuming" not in _log(tmp_path, 0) + _log(tmp_path, 1)


def _interrupt_a_worker_that_waits(text: Path, directory: Path) -> None:
    with _start_both(text, directory, _start_worker, _start_worker) as (first, second):
        second.kill()
        while (
            "Worker 0 waits for worker 1 (localhost:" not in _log(directory, 0)
            and first.poll() is None
        ):
            time.sleep(0.1)
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=_PATIENCE) == 130, _log(directory, 0)
    assert not (directory / "worker0").exists()  # nothing is in the way of the next try


@pytest.mark.long
def test_a_signal_to_one_worker_ends_all_with_a_checkpoint(text, tmp_path):
    with _start_both(text, tmp_path, _start_worker, _start_worker) as (first, second):
        _wait_for_checkpoint(tmp_path, first)
        second.send_signal(signal.SIGTERM)
        for worker in (first, second):
            assert worker.wait(timeout=_PATIENCE) == 130, _log(tmp_path, 0) + _log(tmp_path, 1)
    assert (tmp_path / "worker0" / "last.npz").exists()
    assert "A worker was lost" not in _log(tmp_path, 0)


@pytest.mark.long
def test_signals_end_a_worker_that_waits_or_trains(text, tmp_path):
    waits = tmp_path / "waits"
    trains = tmp_path / "trains"
    waits.mkdir()
    trains.mkdir()
    with _start_both(text, trains, _start_worker, _start_worker) as (first, second):
        _wait_for_checkpoint(trains, first)
        second.send_signal(signal.SIGSTOP)  # the chief waits for it in a collective operation
        while first.poll() is None:  # the first may be noted, the second ends it
            time.sleep(2)
            first.send_signal(signal.SIGTERM)
        assert first.returncode == 130, _log(trains, 0)
        second.send_signal(signal.SIGCONT)
        # it notices the loss after 10 to 20 seconds
        _interrupt_a_worker_that_waits(text, waits)
        assert second.wait(timeout=_PATIENCE) == 1, _log(trains, 1)
    for directory in (waits, trains):
        chief = _log(directory, 0)
        assert "Traceback" not in chief + _log(directory, 1)
        assert chief.count("keras-nplm train: interrupted. Finished work is saved.") == 1
    assert "A worker was lost (" in _log(trains, 1).splitlines()[-1]


def test_strategies_without_their_devices_are_refused(monkeypatch):
    with pytest.raises(InputError, match="`strategy` must be one-device"):
        open_strategy("mirrored")
    with pytest.raises(InputError, match="TF_CONFIG must list workers"):
        open_strategy("multi-worker")
    monkeypatch.setenv("TF_CONFIG", WORKERS)
    tf.zeros(1)
    with pytest.raises(InputError, match="before TensorFlow runs an operation"):
        open_strategy("auto")  # the cluster of TF_CONFIG is found


@pytest.mark.parametrize(
    "error, said, has_several, message",
    [
        pytest.param(
            tf.errors.UnavailableError,
            "Error reported from /job:worker/replica:0/task:1: none",
            True,
            r"lost \(worker 1, b:1\)",
            id="a worker with a name",
        ),
        pytest.param(
            tf.errors.UnavailableError,
            "reset\n",
            True,
            r"A worker was lost \(reset\). The last .* on all workers to resume",
            id="a worker without a name",
        ),
        pytest.param(
            tf.errors.InternalError,
            "out of memory",
            False,
            r"TensorFlow failed \(out of memory\). .* run the same command again to",
            id="TensorFlow on one machine",
        ),
    ],
)
def test_a_failure_of_tensorflow_is_an_error_with_a_remedy(
    monkeypatch, error, said, has_several, message
):
    monkeypatch.setenv("TF_CONFIG", WORKERS)
    monkeypatch.setattr(distribution, "has_several_workers", Mock(return_value=has_several))
    with (
        pytest.raises(RunError, match=message),
        fail_if_worker_is_lost(tf.distribute.get_strategy()),
    ):
        raise error(None, None, f"Graph execution error:\n\nDetected at node X\n{said}")
