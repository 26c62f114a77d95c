"""Benchmark `corpora`: speed and peak memory of counting, encoding and reading n-grams, by the size of the text.

The text is random, with word frequencies as in real text. Each step runs in its own process on one core. Its peak
memory includes about 500 MB of TensorFlow.
"""

import gzip
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus, open_corpus
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark import SMALL_TOKENS
from keras_nplm.experiments.benchmark.children import end_with_parent, start_child
from keras_nplm.experiments.benchmark.contenders import read_cpu_seconds, summarise_rates
from keras_nplm.experiments.benchmark.windows import read_ngrams
from keras_nplm.io.errors import RunError

_TYPES = 2_000_000  # distinct words that can occur
_EXPONENT = 1.05  # of the frequencies of words, rank**-1.05
_FILE_TOKENS = 12_000_000  # tokens of a file; every fourth file is compressed
_HELD_OUT_TOKENS = 10_000
_MAX_SIZE = 50_000  # of the vocabulary
_ORDER, _BATCH_SIZE = 5, 512
_POLL_SECONDS = 0.02  # between two measurements of memory


def measure(corpus: Corpus, rounds: int, tokens: int) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`.

    Args:
        corpus: not used; the texts are random.
        rounds: number of runs of each step.
        tokens: tokens of the larger text; the smaller has `SMALL_TOKENS`.
    """
    rows = []
    for size in (SMALL_TOKENS, tokens):
        with tempfile.TemporaryDirectory() as directory:
            write_text(Path(directory), size)
            for step in _STEPS:
                results = [run_step(step, Path(directory)) for _ in range(rounds)]
                print(f"{step}, {size:,} tokens: {rounds} rounds", file=sys.stderr)
                rates = [size / result["cpu_seconds"] for result in results]
                row = summarise_rates(f"{step}, {size:,} tokens", rates, "tokens/s")
                row["wall_rate"] = statistics.median(size / result["seconds"] for result in results)
                row["peak_memory"] = max(result["peak_memory"] for result in results)
                rows.append(row)
    return rows


def write_text(directory: Path, tokens: int) -> None:
    """Write random text with word frequencies proportional to rank**-1.05, in sentences of 5 to 40 words.

    Args:
        directory: receives `train.00.txt` and so on (every fourth file compressed), `validation.txt` and `test.txt`.
        tokens: number of tokens of the training text; validation and test have 10,000 each.

    Example:

    >>> directory = getfixture("tmp_path")
    >>> write_text(directory, 1000)
    >>> sorted(path.name for path in directory.iterdir())
    ['test.txt', 'train.00.txt', 'validation.txt']
    >>> len((directory / "train.00.txt").read_text().split())
    1000
    """
    random = np.random.default_rng(0)
    cumulative = np.cumsum(1 / np.arange(1, _TYPES + 1) ** _EXPONENT)
    words = np.array([f"w{rank:x}" for rank in range(_TYPES)], dtype=object)
    sizes = [min(_FILE_TOKENS, tokens - start) for start in range(0, tokens, _FILE_TOKENS)]
    files = {f"train.{number:02d}.txt{'.gz' if number % 4 == 3 else ''}": size for number, size in enumerate(sizes)}
    files |= {"validation.txt": _HELD_OUT_TOKENS, "test.txt": _HELD_OUT_TOKENS}
    for name, size in files.items():
        path = directory / name
        with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else open(path, "wb") as file:
            for start in range(0, size, SMALL_TOKENS):
                number = min(SMALL_TOKENS, size - start)
                text = words[np.searchsorted(cumulative, random.random(number) * cumulative[-1])].tolist()
                ends = np.cumsum(random.integers(5, 41, number // 5 + 1))
                ends = [0, *ends[ends < number].tolist(), number]
                lines = (" ".join(text[a:b]) for a, b in itertools.pairwise(ends))
                file.write(("\n".join(lines) + "\n").encode())


def run_step(step: str, directory: Path) -> dict:
    """Run a step over the text of a directory in its own process: `python -m MODULE STEP DIRECTORY PARENT`.

    Args:
        step: `"counting"`, then `"encoding"`, then `"windows"` (one epoch of n-grams from shards).
        directory: a directory written by `write_text`.

    Returns:
        `seconds` of the clock, `cpu_seconds` and `peak_memory` (bytes) of the process and its children.

    Raises:
        RunError: the process failed.
    """
    command = [sys.executable, "-m", __name__, step, str(directory), str(os.getpid())]
    peak = 0
    with start_child(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, _read_memory(process.pid))
            time.sleep(_POLL_SECONDS)
        output = process.stdout.read()
    if process.returncode:
        raise RunError(
            f"The {step} step of the benchmark failed with exit status {process.returncode}. Fix: read its messages "
            "above."
        )
    return json.loads(output.splitlines()[-1]) | {"peak_memory": peak}


def _read_memory(pid: int, parent_command: bytes = b"") -> int:
    """Return the resident memory in bytes of a process and its children; 0 if the system has no /proc.

    `getrusage` is wrong here, because a new process starts with the peak of its parent. For the same reason a child
    with the command of its parent is not counted: it shares the memory of the parent until it starts a program.
    """
    process = Path("/proc") / str(pid)
    try:
        command = (process / "cmdline").read_bytes()
        pages = int((process / "statm").read_text(encoding="utf-8").split()[1])
        children = [(task / "children").read_text(encoding="utf-8").split() for task in (process / "task").iterdir()]
    except (OSError, IndexError):  # the process has ended
        return 0
    if command == parent_command:
        return 0
    return pages * resource.getpagesize() + sum(_read_memory(int(pid), command) for task in children for pid in task)


def _open_text(directory: Path) -> Corpus:
    return open_corpus(**{split: [str(directory / f"{split}.*")] for split in ("train", "validation", "test")})


def _count(directory: Path) -> None:
    count_vocabulary(_open_text(directory), max_size=_MAX_SIZE).save(directory / "vocabulary")


def _encode(directory: Path) -> None:
    encode_corpus(_open_text(directory), Vocabulary.load(directory / "vocabulary"), directory / "corpus")


def _read_windows(directory: Path) -> None:
    read_ngrams(EncodedCorpus.load(directory / "corpus").shards("train"), _ORDER, _BATCH_SIZE)()


_STEPS: dict[str, Callable[[Path], None]] = {"counting": _count, "encoding": _encode, "windows": _read_windows}


def _time_step(step: str, directory: Path) -> dict:
    began, cpu_began = time.perf_counter(), read_cpu_seconds()
    _STEPS[step](directory)
    return {"seconds": time.perf_counter() - began, "cpu_seconds": read_cpu_seconds() - cpu_began}


if __name__ == "__main__":
    end_with_parent(int(sys.argv[3]))
    print(json.dumps(_time_step(sys.argv[1], Path(sys.argv[2]))))
