"""Replicas and workers reach the weights of one device; a lost worker can be restarted."""

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_nplm import InputError
from keras_nplm.cli.main import main
from keras_nplm.io.errors import RunError
from keras_nplm.training import fit, train
from keras_nplm.training.distribution import open_strategy

OPTIONS = (
    "--no-interpolated --dropout 0 --set embedding_dropout=0 --order 3 --embedding-dim 8 "
    "--hidden-units 8"
)
OPTIONS += " --epochs 4 --set batch_size=256"
_PATIENCE = 300  # seconds, on a busy machine


@pytest.mark.long
def test_replicas_reach_the_weights_of_one_device():
    """Training on two logical CPUs and on one."""
    command = [sys.executable, "-m", "tests.training.replicas"]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, capture_output=True, text=True, cwd=root)
    assert run.returncode == 0, run.stderr
    replicas = json.loads(run.stdout)
    assert replicas["replicas"] == 2 and len(replicas["differences"]) == 4
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


def _train_as_worker(config: str, arguments: list[str], log: Path, seconds: float) -> None:
    os.environ["TF_CONFIG"] = config
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    gc.set_threshold(50_000, 10, 10)  # as in tests/conftest.py
    fit.SECONDS_PER_SAVE = seconds
    # without report.html and logs of TensorBoard, most of a short run
    train.write_run_report = lambda *arguments: None
    fit.LanguageModelBoard = lambda *arguments, **options: keras.callbacks.Callback()
    sys.exit(main(arguments))


@contextlib.contextmanager
def _start_both(
    text: Path, directory: Path, *, outputs: str, flags=2 * (OPTIONS,), seconds: float = 600
) -> Iterator[list[ForkServerProcess]]:
    """Start two workers, which save after so many seconds; end them after the block.

    Each is a fork of a process that has imported TensorFlow, and used nothing of it.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["keras_nplm.training.train"])
    workers = []
    try:
        for index, config in enumerate(_choose_configs()):
            arguments = _list_arguments(text, directory / outputs.format(index), flags[index])
            log = directory / f"worker{index}.log"
            workers.append(
                forks.Process(target=_train_as_worker, args=(config, arguments, log, seconds))
            )
            workers[-1].start()
        yield workers
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _wait_for(worker: ForkServerProcess) -> int | None:
    worker.join(_PATIENCE)
    return worker.exitcode


def _log(directory: Path, index: int) -> str:
    return (directory / f"worker{index}.log").read_text(errors="replace")


@contextlib.contextmanager
def _start_until_checkpoint(text: Path, directory: Path):
    """Start two workers of one directory, and enter the block when they have a new checkpoint."""
    last = directory / "model" / "last.npz"
    began = time.time()
    with _start_both(text, directory, outputs="model", seconds=0.5) as workers:
        while not (last.exists() and last.stat().st_mtime > began):
            time.sleep(0.1)
            assert workers[0].is_alive(), _log(directory, 0)
        yield workers


def _train_together(text: Path, directory: Path, **options) -> None:
    """Train with two workers to the end."""
    with _start_both(text, directory, **options) as workers:
        for worker in workers:
            assert _wait_for(worker) == 0, _log(directory, 0) + _log(directory, 1)


@pytest.mark.long
@pytest.mark.usefixtures("no_report")
def test_workers_are_lost_or_interrupted_and_resume_bit_for_bit(
    text, tmp_path, tmp_path_factory, load_weights, assert_same_weights
):
    loss = "A worker was lost or failed (Collective ops is aborted by: "
    fix = "Fix: run the same command again on all workers to resume."
    with _start_until_checkpoint(text, tmp_path) as (first, second):
        os.kill(second.pid, signal.SIGSTOP)  # the chief waits for it in a collective operation
        while first.is_alive():  # the first may be noted, the second ends it
            time.sleep(2)
            first.terminate()
        assert _wait_for(first) == 130, _log(tmp_path, 0)
        os.kill(second.pid, signal.SIGCONT)
        assert _wait_for(second) == 1, _log(tmp_path, 1)  # it notices after 10 to 20 seconds
    last = _log(tmp_path, 1).splitlines()[-1]
    assert loss in last and fix in last
    with _start_until_checkpoint(text, tmp_path) as (first, second):
        second.terminate()
        for worker in (first, second):
            assert _wait_for(worker) == 130, _log(tmp_path, 0) + _log(tmp_path, 1)
    assert loss not in _log(tmp_path, 0)
    whole = tmp_path_factory.mktemp("uninterrupted")
    _train_together(text, whole, outputs="worker{}")
    assert "Traceback" not in _log(tmp_path, 0) + _log(tmp_path, 1)
    _train_together(text, tmp_path, outputs="model")
    assert_same_weights(whole / "worker0", tmp_path / "model")
    assert "this worker has finished; worker 0 wrote the model" in _log(whole, 1)
    assert not (whole / "worker1" / "model.keras").exists()
    assert main(_list_arguments(text, tmp_path / "alone")) == 0
    for one, two in zip(
        load_weights(tmp_path / "alone"), load_weights(whole / "worker0"), strict=True
    ):
        np.testing.assert_allclose(one, two, atol=2e-6)


@pytest.mark.long
def test_workers_train_a_hybrid_with_the_options_of_the_chief(tmp_path, short_text):
    """Each reads the n-gram model in its directory."""
    token = "--token character"
    flags = f"{token} --epochs 1 --order 4 --embedding-dim 8 --hidden-units 8"
    flags += " --set optimizer=sgd batch_size=256 weight_average=0 --learning-rate 1"
    _train_together(short_text, tmp_path, outputs="worker{}", flags=(flags, token))
    models = [tmp_path / f"worker{index}" / "components" / "1" / "ngrams.npz" for index in (0, 1)]
    assert models[0].read_bytes() == models[1].read_bytes()
    metrics = json.loads((tmp_path / "worker0" / "metrics.json").read_text())
    assert metrics["kneser_ney"]["test"] > 1 and len(metrics["history"]) == 1


def test_strategies_without_their_devices_are_refused(monkeypatch):
    with pytest.raises(InputError, match="`strategy` must be one-device"):
        open_strategy("mirrored")
    with pytest.raises(InputError, match="TF_CONFIG must list workers"):
        open_strategy("multi-worker")
    with socket.create_server(("", 0)) as used:
        address = f"localhost:{used.getsockname()[1]}"
        task = {"type": "worker", "index": 0}
        config = {"cluster": {"worker": [address, "localhost:1"]}, "task": task}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        with pytest.raises(RunError, match=f"as {address}: .*Address already in use"):
            open_strategy("auto")  # the cluster of TF_CONFIG is found
