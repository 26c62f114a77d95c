"""Runs killed at random moments resume bit for bit, with every output layer.

    python tests/training/test_kills.py KILLS [SEED]

For each output layer one process trains without interruption. Other runs with the same options receive SIGKILL or
SIGTERM several times, and then end. Half of the moments are random times. The other half follow a random file of the
model directory by up to 30 ms. The contents of the directories must be equal. The process of this script imports
TensorFlow once and runs none of its operations: each run is a fork of it.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tensorflow.python.eager import context

import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.data.encoded_corpus as encoded_corpus
import keras_nplm.data.shuffling as shuffling
import keras_nplm.training.checkpoint as checkpoint
import keras_nplm.training.report  # loaded before the forks
import keras_nplm.training.train  # noqa: F401
from keras_nplm.cli.main import main

pytestmark = pytest.mark.long
COMMON = "--order 4 --embedding-dim 8 --hidden-units 12 --epochs 2 --batch-size 64 --min-count 2 --dropout 0.2"
OUTPUTS = {
    "full": "--weight-average 0.9 --direct-connections --held-out-mass 0",
    "energy": "--output-layer energy --optimizer adagrad --learning-rate 0.1",
    "nce": "--output-layer nce --num-sampled 20 --optimizer adam --learning-rate 0.01",
    "adaptive": "--output-layer adaptive --cutoffs 8,16 --held-out-mass 0 --optimizer sgd",
    "shortlist": "--output-layer sampled --num-sampled 9 --shortlist-size 10 --boundary stream",
    "shards": "--resample 0.5 {other}",  # text in many chunks, read by processes and kept on disk
}
FILES = [
    *(".lock", "vocabulary.txt", "corpus/counted.json", "corpus/plan.json", "corpus/*.ids", "config.json"),
    *("logs/train/*", "last.npz", ".last.*", "history.json", ".history.*", "model.keras", ".model.*"),
    *("components/*/model.keras", "metrics.json", "report.html", ".report.*"),
]
EXPECTED = {signal.SIGKILL: (-9, 0), signal.SIGTERM: (-15, 130, 0)}  # exit statuses: 0 if the run has just ended
_TIMES = {"seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second"}


def set_small(output: str) -> None:
    """Write checkpoints all the time. For shards: chunks of 4 KB, two processes, and blocks that do not fit at once."""
    checkpoint.SECONDS_PER_SAVE, checkpoint.UPDATES_PER_CHECK = 0.02, 3
    if output == "shards":
        chunks.CHUNK_BYTES, chunks.PARALLEL_BYTES = 1 << 12, 1 << 12
        encoded_corpus.IN_MEMORY, shuffling.BLOCK, shuffling.POOL = 0, 1 << 8, 4 << 8


def fork_run(output: str, directory: Path) -> int:
    """Start a run in a fork of this process. Return its process id."""
    if process := os.fork():
        return process
    status = 70
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        file = os.open(directory.parent / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1), os.dup2(file, 2)
        set_small(output)
        root = directory.parents[1]
        options = f"{COMMON} {OUTPUTS[output]}".format(other=root / "other.txt").split()
        status = main(["train", "--train", str(root / "text.txt"), "--output", str(directory), *options])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def wait(process: int, seconds: float = np.inf, changed=lambda: False) -> int | None:
    """Wait for the end of a process, a time or an event. Return its exit status, or None if it runs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not changed():
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    return None


def kill_once(process: int, directory: Path, seconds: float, rng: np.random.Generator) -> bool:
    """Kill a run at a random moment. Return whether the signal came before its end."""
    pause, status = rng.uniform(0, seconds), None
    number = rng.choice([signal.SIGKILL, signal.SIGTERM])
    if rng.random() < 0.5:
        pattern, pause = str(directory / rng.choice(FILES)), rng.uniform(0, 0.03)
        before = list_times(pattern)
        status = wait(process, changed=lambda: list_times(pattern) != before)
    if status is None and (status := wait(process, pause)) is None:
        os.kill(process, number)
        status = wait(process)
        assert status in EXPECTED[number], f"exit status {status}: see {directory.parent / 'log'}"
        return status != 0
    assert status == 0, f"exit status {status}: see {directory.parent / 'log'}"
    return False


def list_times(pattern: str) -> list:
    return [(path, os.stat(path).st_mtime_ns) for path in glob.glob(pattern) if os.path.exists(path)]


def read_contents(directory: Path) -> dict:
    """Everything in a model directory that must be equal: bytes, weights, and figures without seconds."""
    contents = {}
    for path in (path for path in sorted(directory.rglob("*")) if path.is_file()):
        name = str(path.relative_to(directory))
        if path.suffix in (".keras", ".npz"):
            parts = zipfile.ZipFile(path).infolist()
            contents[name] = {part.filename: part.CRC for part in parts if part.filename != "metadata.json"}  # a date
        elif path.name in ("metrics.json", "history.json"):
            contents[name] = json.loads(path.read_text(), object_hook=remove_times)
        elif not name.startswith("logs"):
            contents[name] = path.read_bytes() if name != "report.html" else "present"
    return contents


def remove_times(value: dict) -> dict:
    return {name: part for name, part in value.items() if name not in _TIMES}


def kill_runs(output: str, kills: int, root: Path, rng: np.random.Generator) -> None:
    """Kill and resume runs of an output layer until they received so many signals; compare what they wrote."""
    (root / output).mkdir()
    began, runs = time.monotonic(), 0
    assert wait(fork_run(output, root / output / "0")) == 0, (root / output / "log").read_text()[-2000:]
    seconds, whole = time.monotonic() - began, read_contents(root / output / "0")
    while kills:
        runs += 1
        directory, most, killed = root / output / str(runs), min(kills, int(rng.integers(2, 9))), True
        while killed and most:
            killed = kill_once(fork_run(output, directory), directory, seconds, rng)
            most, kills = most - killed, kills - killed
        assert not killed or wait(fork_run(output, directory)) == 0, (root / output / "log").read_text()[-2000:]
        resumed = read_contents(directory)
        names = [name for name in whole.keys() | resumed.keys() if whole.get(name) != resumed.get(name)]
        assert not names, f"{directory} differs in {names}"
    assert not context.context()._initialized, "this process must run no operation, so that it can be forked"


def test_killed_runs_of_every_output_layer_resume_bit_for_bit():
    """Two kills of each; SIGKILL and SIGTERM from the first lock to the report."""
    done = subprocess.run([sys.executable, __file__, "2"], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


if __name__ == "__main__":
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(4))
    print(f"seed {seed}", file=sys.stderr)
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("text", "other"):
            lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(3, 12)) % 30) for _ in range(400)]
            (Path(temporary) / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for output in OUTPUTS:
            kill_runs(output, int(sys.argv[1]), Path(temporary), rng)
