"""What text costs before a model sees it: speed and peak memory of counting, encoding and windows, by its size.

Each step runs in a process of its own (`python -m keras_nplm.experiments.benchmark.corpora STEP DIRECTORY`), whose
peak memory is
therefore that step's, on top of the about 500 MB that TensorFlow takes.
"""

import gzip
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_nplm.data.corpora import Corpus, open_corpus
from keras_nplm.data.dataset import ngram_dataset
from keras_nplm.data.encoded_corpus import EncodedCorpus
from keras_nplm.data.encoding import count_vocabulary, encode_corpus
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import RunError

SMALL, TOKENS = 1_000_000, 10_000_000  # of the two texts
_TYPES = 2_000_000  # different words that there could be
_FILE_TOKENS = 12_000_000  # of a file of text; each fourth is compressed
_MAX_SIZE = 50_000  # of the vocabulary
_ORDER, _BATCH_SIZE = 5, 512
_SECONDS_PER_LOOK = 0.02  # at the memory


def write_text(directory: Path, tokens: int) -> None:
    """Write text whose words have frequencies that fall as 1/rank**1.05, in sentences of 5 to 40 words.

    Args:
        directory: gets `train.00.txt` …, each fourth of them `.gz`, `validation.txt` and `test.txt`.
        tokens: of the training text; the others have 10,000.

    Example:

    >>> directory = getfixture("tmp_path")
    >>> write_text(directory, 1000)
    >>> sorted(path.name for path in directory.iterdir())
    ['test.txt', 'train.00.txt', 'validation.txt']
    >>> len((directory / "train.00.txt").read_text().split())
    1000
    """
    random = np.random.default_rng(0)
    ranks = np.cumsum(1 / np.arange(1, _TYPES + 1) ** 1.05)
    words = np.array([f"w{rank:x}" for rank in range(_TYPES)], dtype=object)
    sizes = [min(_FILE_TOKENS, tokens - start) for start in range(0, tokens, _FILE_TOKENS)]
    named = {f"train.{number:02d}.txt{'.gz' if number % 4 == 3 else ''}": size for number, size in enumerate(sizes)}
    for name, size in (named | {"validation.txt": 10_000, "test.txt": 10_000}).items():
        path = directory / name
        with gzip.open(path, "wb", compresslevel=1) if path.suffix == ".gz" else open(path, "wb") as file:
            for start in range(0, size, SMALL):
                number = min(SMALL, size - start)
                drawn = words[np.searchsorted(ranks, random.random(number) * ranks[-1])].tolist()
                ends = np.cumsum(random.integers(5, 41, number // 5 + 1))
                ends = [0, *ends[ends < number].tolist(), number]
                lines = (" ".join(drawn[a:b]) for a, b in itertools.pairwise(ends))
                file.write(("\n".join(lines) + "\n").encode())


def _corpus(directory: Path) -> Corpus:
    named = {split: [str(directory / f"{split}.*")] for split in ("train", "validation", "test")}
    return open_corpus(**named)


def _counting(directory: Path) -> None:
    count_vocabulary(_corpus(directory), max_size=_MAX_SIZE).save(directory / "vocabulary")


def _encoding(directory: Path) -> None:
    encode_corpus(_corpus(directory), Vocabulary.load(directory / "vocabulary"), directory / "corpus")


def _windows(directory: Path) -> None:
    ids = EncodedCorpus.load(directory / "corpus").shards("train")
    dataset = ngram_dataset(ids, _ORDER, _BATCH_SIZE, boundary="stream")
    dataset.reduce(np.int64(0), lambda read, batch: read + tf.size(batch[1], tf.int64))


_STEPS: dict[str, Callable[[Path], None]] = {"counting": _counting, "encoding": _encoding, "windows": _windows}


def measure(step: str, directory: Path) -> dict:
    """Run a step over the text of a directory in a process of its own.

    Args:
        step: `"counting"`, `"encoding"` (after it) or `"windows"` (after that: one epoch of n-grams from shards).
        directory: as `write_text` leaves it.

    Returns:
        `seconds`, `cpu_seconds` of all its processes, and `peak_memory`: bytes that they held together at most.
    """
    command = [sys.executable, "-m", "keras_nplm.experiments.benchmark.corpora", step, str(directory)]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, _memory(process.pid))
            time.sleep(_SECONDS_PER_LOOK)
        answer = process.stdout.read()
    if process.returncode:
        raise RunError(f"The {step} of the benchmark ended with status {process.returncode}: see above.")
    return json.loads(answer.splitlines()[-1]) | {"peak_memory": peak}


def _memory(pid: int, started_by: bytes = b"") -> int:
    """The bytes of memory that a process and those that it started hold now; 0 where the system does not tell.

    `getrusage` will not do: a new process begins with the peak of the one that started it. For the same reason one that
    has the command of the one that started it is not counted: it has that one's memory until it starts a program.
    """
    process = Path("/proc") / str(pid)
    try:
        command = (process / "cmdline").read_bytes()
        pages = int((process / "statm").read_text(encoding="utf-8").split()[1])
        started = [(task / "children").read_text(encoding="utf-8").split() for task in (process / "task").iterdir()]
    except (OSError, IndexError):  # it has ended
        return 0
    if command == started_by:
        return 0
    return pages * resource.getpagesize() + sum(_memory(int(child), command) for some in started for child in some)


def _measured(step: str, directory: Path) -> dict:
    seconds, cpu_seconds = time.perf_counter(), _cpu_seconds()
    _STEPS[step](directory)
    return {"seconds": time.perf_counter() - seconds, "cpu_seconds": _cpu_seconds() - cpu_seconds}


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def corpora_rows(tokens: int = TOKENS, rounds: int = 1) -> list[dict]:
    """Measure the steps over a text of a million tokens and over a larger one.

    Args:
        tokens: of the larger.
        rounds: how often each step is run.

    Returns:
        rows as `keras_nplm.experiments.benchmark.run` has them, with `wall_rate` and `peak_memory`.
    """
    rows = []
    for size in (SMALL, tokens):
        with tempfile.TemporaryDirectory() as directory:
            write_text(Path(directory), size)
            for step in _STEPS:
                results = [measure(step, Path(directory)) for _ in range(rounds)]
                print(f"{step}, {size:,} tokens: {rounds} rounds", file=sys.stderr)
                rates = [size / result["cpu_seconds"] for result in results]
                rows.append(
                    {
                        "name": f"{step}, {size:,} tokens",
                        "unit": "tokens/s",
                        "rate": statistics.median(rates),
                        "low": min(rates),
                        "high": max(rates),
                        "wall_rate": statistics.median(size / result["seconds"] for result in results),
                        "peak_memory": max(result["peak_memory"] for result in results),
                    }
                )
    return rows


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1], Path(sys.argv[2]))))
