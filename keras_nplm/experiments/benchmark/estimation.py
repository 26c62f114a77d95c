"""Speed and peak memory of Kneser-Ney estimation of order 5, by the size of the text.

The text is sampled from an interpolated trigram model of the text of `--corpus`, with 2% of other words, so that its
vocabulary grows with its size (`--tokens`). `ngram` counts the vocabulary, encodes the text, estimates the model with
its counts sorted on disk, and evaluates it. The peer is KenLM's `lmplz` (on the PATH; the source distribution of the
Python package kenlm has it) with the same text, in 1 GB; like `ngram` it writes binary files. Each command runs on one
core.
"""

import sys
import tempfile
from pathlib import Path

from keras_nplm.experiments.benchmark import Benchmark, Settings, format_ratios
from keras_nplm.experiments.benchmark.contenders import Process, build_command, measure_group
from keras_nplm.experiments.benchmark.sampled_text import sample_texts

_BUILD = f"{build_command.__module__}:build_command"
_NGRAM = "ngram --order=5 --min-count=1 --method=kneser-ney --output={results}/model --tokenizer=whitespace"
_LMPLZ = "lmplz --order=5 --memory=1G --temp_prefix={results}/ --discount_fallback --intermediate={results}/model"
COLUMNS = [
    ("command", "name", ""),
    ("tokens per CPU second", "rate", ",.0f"),
    ("CPU seconds", "cpu_seconds", ",.1f"),
    ("tokens per second of the clock", "wall_rate", ",.0f"),
    ("peak memory", lambda row: f"{row['peak_memory'] / 1e6:,.0f} MB" if "peak_memory" in row else "", ""),
    ("ratio to peer (min to max)", format_ratios, ""),
]


def measure(settings: Settings) -> list[dict]:
    """Return the rows of the commands for each size of the text."""
    rows = []
    for size in settings.tokens:
        with tempfile.TemporaryDirectory() as texts:
            sample_texts(Path(texts), settings.corpus, size)
            flags = [f"--{split}={texts}/{split}.txt" for split in ("train", "validation", "test")]
            package = [sys.executable, "-m", "keras_nplm", *_NGRAM.split(), *flags]
            peer = [*_LMPLZ.split(), f"--text={texts}/train.txt"]
            job = {"tokens": size, "directory": texts}
            group = [
                Process("ngram", _BUILD, {"name": "ngram", "words": package} | job),
                Process("lmplz", _BUILD, {"name": "lmplz", "words": peer} | job, peer=True, needs=["lmplz"]),
            ]
            measured = measure_group(group, settings.rounds, warm_up=0, unit="tokens/s")
        rows += [row | {"name": f"{row['name']}, {size:,} tokens"} for row in measured]
    return rows


BENCHMARK = Benchmark(__doc__, COLUMNS, measure)
