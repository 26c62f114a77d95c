"""`python -m tests.benchmarks NAME [--record]`: measure the figures of one name.

Peers that are not installed are left out: `pip install ".[benchmark]"` has PyTorch and KenLM.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path

from keras_nplm.data.corpora.opening import open_corpus
from keras_nplm.io.memory import keep_freed_memory
from tests.benchmarks import recording
from tests.benchmarks.contenders import has_gpu
from tests.benchmarks.report import Settings


def main(words: list[str]) -> None:
    """Run the command, print its table, and record it on request."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("name", choices=recording.NAMES, metavar="NAME", help="%(choices)s")
    parser.add_argument("--record", action="store_true", help="replace the recorded report")
    parser.add_argument("--output", type=Path, default="paper", help="directory of models")
    parser.add_argument("--jobs", type=int, help="models trained side by side")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each contender")
    parser.add_argument("--corpus", default="python_reference", help="text of n-gram models")
    parser.add_argument("--data-dir", help="directory of brown.zip")
    parser.add_argument("--texts", nargs="+", default=[], help="further texts, only of `default`")
    given = parser.parse_args(words)
    declaration = recording.load_declaration(given.name)
    corpus = open_corpus(given.corpus, data_dir=given.data_dir)
    settings = Settings(corpus, given.rounds, given.output, given.jobs, given.data_dir, given.texts)
    if given.record:  # before hours of training
        recording.check_origins(declaration.read_origins(settings))
    # one core; TensorFlow counts those that it may use. macOS cannot bind a process to cores
    if declaration.on_one_core and hasattr(os, "sched_setaffinity") and not has_gpu():
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    keep_freed_memory()
    # TensorFlow would take all memory of a GPU, and peers train on it too
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    report = declaration.measure(settings)
    print(declaration.format_table(report))
    if given.record:
        # the command of the page has the names of files without their directory
        shown = [Path(word).name if word in given.texts else word for word in words]
        kept = [word for word in shown if word != "--record"]
        command = shlex.join(["python", "-m", "tests.benchmarks", *kept])
        origins = declaration.read_origins(settings)
        recording.record_report(given.name, report, origins, command)


if __name__ == "__main__":
    main(sys.argv[1:])
