"""Script of `test_kills.py`: kill training runs at random moments, resume them, and compare them bit for bit.

    python tests/training/kills.py --kills 200

For each output layer one process trains without interruption. Other runs with the same options receive SIGKILL or
SIGTERM several times, and then end. Half of the moments are random times. The other half follow a random file of the
model directory by up to 30 ms, so that counting, encoding, checkpoints and figures are hit, too.

Weights, the optimiser's state in model.keras, vocabulary, encoded text, n-gram tables and figures must be equal, and no
further files may be left. Standard output has a JSON report: the kills of each kind and phase, and the differences.

This process imports TensorFlow once and runs none of its operations: each run is a fork of it. The first output layer's
uninterrupted run is a process of its own, so the comparison also covers the fork.
"""

import argparse
import collections
import contextlib
import copy
import glob
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import h5py
import numpy as np
from tensorflow.python.eager import context

import keras_nplm.data.corpora.chunks as chunks
import keras_nplm.data.encoded_corpus as encoded_corpus
import keras_nplm.data.shuffling as shuffling
import keras_nplm.training.checkpoint as checkpoint
import keras_nplm.training.report  # loaded before the forks
import keras_nplm.training.train  # noqa: F401
from keras_nplm.cli.main import main

COMMON = (
    "--order 4 --embedding-dim 8 --hidden-units 12 --epochs 3 --batch-size 64 --min-count 2 --dropout 0.2 "
    "--boundary sentence --held-out-mass 0"
)
OUTPUTS = {
    "full": "--weight-average 0.9",
    "direct": "--direct-connections --optimizer adagrad --learning-rate 0.1",
    "energy": "--output-layer energy --optimizer sgd",
    "sampled": "--output-layer sampled --num-sampled 20 --optimizer adam --learning-rate 0.01",
    "nce": "--output-layer nce --num-sampled 20 --held-out-mass 0.1",
    "adaptive": "--output-layer adaptive --cutoffs 8,16",
    "shortlist": "--shortlist-size 10 --boundary stream",
    "shards": "--resample 0.5 {other}",  # text in many chunks, read by processes and kept on disk
}
EVENTS = {
    "counting": [".lock"],
    "encoding": ["vocabulary.txt", "corpus/counted.json", "corpus/plan.json", "corpus/*.ids", "corpus/corpus.json"],
    "training": ["config.json", "logs/train/*", "last.npz", ".last.*", "history.json", ".history.*"],
    "best epoch": ["model.keras", ".model.*", "components/*/model.keras", "components/*/.model.*"],
    "end": ["metrics.json", "report.html", ".report.*"],
}
_TIMES = {"seconds", "cpu_seconds", "training_cpu_seconds", "ngrams_per_second"}


def set_small(output: str) -> None:
    """Write checkpoints all the time. For shards: chunks of 4 KB, two processes, and blocks that do not fit at once."""
    checkpoint.SECONDS_PER_SAVE, checkpoint.UPDATES_PER_CHECK = 0.02, 3
    if output == "shards":
        chunks.CHUNK_BYTES, chunks.PARALLEL_BYTES = 1 << 12, 1 << 12
        encoded_corpus.IN_MEMORY, shuffling.BLOCK, shuffling.POOL = 0, 1 << 8, 4


def write_texts(directory: Path) -> dict[str, Path]:
    rng, texts = np.random.default_rng(0), {}
    for name in ("text", "other"):
        lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(3, 12)) % 30) for _ in range(400)]
        texts[name] = directory / f"{name}.txt"
        texts[name].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return texts


def build_command(output: str, texts: dict[str, Path], directory: Path) -> list[str]:
    options = f"{COMMON} {OUTPUTS[output]}".format(**texts).split()
    return ["train", "--train", str(texts["text"]), "--output", str(directory), *options]


def fork_run(output: str, command: list[str], log: Path) -> int:
    """Start a run in a fork of this process. Return its process id."""
    if process := os.fork():
        return process
    status = 70
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1), os.dup2(file, 2)
        set_small(output)
        status = main(command)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def wait(process: int, until: float | None = None, changed=lambda: False) -> int | None:
    """Wait for the end of a process, a time or an event. Return its exit status, or None if it runs."""
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if (until is not None and time.monotonic() >= until) or changed():
            return None
        time.sleep(0.001)


def list_times(directory: Path, patterns: list[str]) -> set:
    """The files of some patterns with their modification times."""
    found = set()
    for path in (path for pattern in patterns for path in glob.glob(str(directory / pattern))):
        with contextlib.suppress(FileNotFoundError):
            found.add((path, os.stat(path).st_mtime_ns))
    return found


def kill_once(process: int, directory: Path, seconds: float, rng: np.random.Generator) -> tuple[str, int]:
    """Kill a run at a random moment, unless it ends before. Return the signal's name, or "", and the exit status."""
    if rng.random() < 0.5:
        status = wait(process, time.monotonic() + rng.uniform(0, seconds))
    else:
        group = EVENTS[rng.choice([*EVENTS])]
        patterns = [rng.choice(group)] if len(group) > 1 else group
        before = list_times(directory, patterns)
        status = wait(process, changed=lambda: list_times(directory, patterns) - before)
        if status is None:
            status = wait(process, time.monotonic() + rng.uniform(0, 0.03))
    if status is not None:
        return "", status
    number = signal.SIGKILL if rng.random() < 0.5 else signal.SIGTERM
    os.kill(process, number)
    status = wait(process)
    return (signal.Signals(number).name, status) if status else ("", status)  # 0: the run ended before the signal


def describe_phase(directory: Path) -> str:
    """What a killed run was at, by the files that it left."""
    for path in directory.rglob(".*"):
        if path.name != ".lock":
            return f"writing {path.name.split('.')[1]}{path.suffix}"
    for name, phase in {
        "": "before the lock",
        "vocabulary.txt": "counting",
        "corpus/corpus.json": "encoding",
        "config.json": "before config.json",
        "last.npz": "building" if not (directory / "metrics.json").exists() else "report",
    }.items():
        if not (directory / name).exists():
            return phase
    if (directory / "metrics.json").exists():
        return "after metrics.json"
    try:
        return f"epoch {len(json.loads((directory / 'history.json').read_text())['epochs']) + 1}"
    except FileNotFoundError:
        return "epoch 1"


def read_contents(directory: Path) -> dict:
    """Everything in a model directory that must be equal: bytes, weights, and figures without seconds."""
    contents = {}
    for path in sorted(directory.rglob("*")):
        name = str(path.relative_to(directory))
        if not path.is_file() or name.startswith("logs") or name == "report.html":
            contents.update({name: "present"} if name == "report.html" else {})
        elif path.suffix == ".keras":
            contents.update({f"{name} {key}": value for key, value in _read_network(path)})
        elif path.suffix == ".npz":
            with np.load(path) as arrays:
                contents.update({f"{name} {key}": arrays[key].tobytes() for key in arrays})
        elif path.name in ("metrics.json", "history.json"):
            contents[name] = _remove_times(json.loads(path.read_text()))
        else:
            contents[name] = path.read_bytes()
    return contents


def _read_network(path: Path) -> list[tuple[str, bytes]]:
    """The configuration of a .keras file and its arrays, those of the optimiser included."""
    arrays = []
    with zipfile.ZipFile(path) as archive, h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as file:
        file.visititems(
            lambda name, value: arrays.append((name, value[()].tobytes())) if isinstance(value, h5py.Dataset) else None
        )
        return [("config.json", archive.read("config.json")), *arrays]


def _remove_times(value: object) -> object:
    if isinstance(value, dict):
        return {name: _remove_times(part) for name, part in value.items() if name not in _TIMES}
    return [_remove_times(part) for part in value] if isinstance(value, list) else value


def compare(whole: dict, resumed: dict) -> list[str]:
    """The names of the contents that differ."""
    return [name for name in sorted(whole.keys() | resumed.keys()) if whole.get(name) != resumed.get(name)]


def run_whole(output: str, command: list[str], log: Path, is_fork: bool) -> None:
    """Train without interruption, in a fork of this process or in a process of its own."""
    if is_fork:
        status = wait(fork_run(output, command, log))
    else:
        code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import kills; kills.set_small("
        code += f"{output!r}); sys.exit(kills.main({command!r}))"
        with open(log, "ab") as file:
            status = subprocess.run([sys.executable, "-c", code], stdout=file, stderr=file).returncode
    if status:
        raise RuntimeError(f"The uninterrupted run of {output} ended with status {status}: {log.read_text()[-2000:]}")


def kill_and_resume(
    command: list[str], output: str, seconds: float, kills: int, directory: Path, log: Path, rng: np.random.Generator
) -> dict:
    """Kill a run up to a number of times, then let it end. Return the kills and the unexpected exit statuses."""
    report = {"kills": 0, "signals": collections.Counter(), "phases": collections.Counter(), "unexpected": []}
    while True:
        process = fork_run(output, command, log)
        name, status = kill_once(process, directory, seconds, rng) if report["kills"] < kills else ("", wait(process))
        if not name:
            report["unexpected"] += [["end", status, directory.name]] if status else []
            return report
        phase = describe_phase(directory)
        report["kills"] += 1
        report["signals"][name] += 1
        report["phases"][phase] += 1
        if status not in {"SIGKILL": (-9,), "SIGTERM": (-15, 130)}[name]:
            report["unexpected"].append([name, status, phase, directory.name])


def run(kills: int, seed: int, outputs: list[str], root: Path) -> dict:
    """Kill runs of all output layers in turn, and compare each run when it has ended. Return the report."""
    rng, began = np.random.default_rng(seed), time.time()
    texts, wholes, total = write_texts(root), {}, 0
    counted = {"kills": 0, "runs": 0, "differences": [], "unexpected": []}
    reports = {
        output: copy.deepcopy(counted) | {"signals": collections.Counter(), "phases": collections.Counter()}
        for output in outputs
    }
    while total < kills:
        for number, output in enumerate(outputs):
            report, log = reports[output], root / f"{output}.log"
            share = kills // len(outputs) + (number < kills % len(outputs)) - report["kills"]
            if share <= 0:
                continue
            if output not in wholes:
                start = time.monotonic()
                run_whole(output, build_command(output, texts, root / output / "0"), log, is_fork=bool(wholes))
                wholes[output] = read_contents(root / output / "0"), time.monotonic() - start
            whole, seconds = wholes[output]
            report["runs"] += 1
            directory = root / output / str(report["runs"])
            command, most = build_command(output, texts, directory), min(share, int(rng.integers(2, 9)))
            for name, value in kill_and_resume(command, output, seconds, most, directory, log, rng).items():
                report[name] += value
            if names := compare(whole, read_contents(directory)):
                report["differences"].append([directory.name, *names])
            total = sum(part["kills"] for part in reports.values())
            said = {name: report[name] for name in ("kills", "differences", "unexpected")}
            print(f"{time.time() - began:.0f} s, {total} kills; {output}: {said}", file=sys.stderr)
            assert not context.context()._initialized, "this process must run no operation, so that it can be forked"
    result = {"seed": seed, "seconds": round(time.time() - began), "kills": total, "outputs": reports}
    for name in ("runs", "differences", "unexpected"):
        values = [report[name] for report in reports.values()]
        result[name] = sum(value if name == "runs" else len(value) for value in values)
    for name in ("signals", "phases"):
        result[name] = sum((report[name] for report in reports.values()), collections.Counter())
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--outputs", nargs="+", choices=tuple(OUTPUTS), default=list(OUTPUTS))
    parser.add_argument("--directory", type=Path, default=None, help="kept for inspection (default: a temporary one)")
    arguments = parser.parse_args()
    seed = int.from_bytes(os.urandom(4)) if arguments.seed is None else arguments.seed
    with tempfile.TemporaryDirectory() as temporary:
        root = arguments.directory or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        result = run(arguments.kills, seed, arguments.outputs, root)
    json.dump(result, sys.stdout, indent=1)
    sys.exit(bool(result["differences"] or result["unexpected"]))
