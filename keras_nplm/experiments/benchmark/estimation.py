"""Speed and peak memory of Kneser-Ney estimation of order 5.

The text is the training text of `--corpus` or `--train`, with spaces between its words. `ngram
--all` counts the vocabulary, encodes the text, and estimates the model with its counts sorted on
disk. The peer is KenLM's `lmplz` (on the PATH; the source distribution of the Python package kenlm
has it) with the same text, in 1 GB; like `ngram` it writes binary files.
"""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_nplm.experiments.benchmark import Benchmark, Settings, format_ratios
from keras_nplm.experiments.benchmark.contenders import (
    Contender,
    Process,
    build_command,
    measure_group,
)
from keras_nplm.experiments.tables import Column, Table

_BUILD = f"{build_command.__module__}:build_command"
_NGRAM = (
    "ngram --order=5 --min-count=1 --method=kneser-ney --output={results}/model "
    "--tokenizer=whitespace --all"
)
_LMPLZ = (
    "lmplz --order=5 --memory=1G --temp_prefix={results}/ --discount_fallback "
    "--intermediate={results}/model"
)


def _format_peak_memory(row: dict) -> str:
    return f"{row['peak_memory'] / 1e6:,.0f} MB"


COLUMNS: list[Column] = [
    ("command", "name", ""),
    ("tokens per CPU second", "rate", ",.0f"),
    ("CPU seconds", "cpu_seconds", ",.1f"),
    ("peak memory", _format_peak_memory, ""),
    ("ratio to peer (min to max)", format_ratios, ""),
]


def measure(settings: Settings) -> list[dict]:
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "train.txt")
        tokens = _write_text(text, settings.corpus.sentences("train"))
        package = {
            "name": "ngram",
            "words": [sys.executable, "-m", "keras_nplm", *_NGRAM.split(), f"--train={text}"],
            "tokens": tokens,
            "directory": directory,
        }
        peer = {
            "name": "lmplz",
            "words": [*_LMPLZ.split(), f"--text={text}"],
            "tokens": tokens,
            "directory": directory,
        }
        group: list[Contender] = [
            Process("ngram", _BUILD, package),
            Process("lmplz", _BUILD, peer, needs=["lmplz"], peer=True),
        ]
        rows = measure_group(group, settings.rounds, warm_up=0)
    for row in rows:
        row["name"] = f"{row['name']}, {tokens:,} tokens"
    return rows


def _write_text(path: Path, sentences: Iterable[Sequence[str]]) -> int:
    """Write sentences, a line each, without the empty ones. Return their number of tokens."""
    tokens = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in filter(None, sentences):
            tokens += len(sentence)
            file.write(f"{' '.join(sentence)}\n")
    return tokens


BENCHMARK = Benchmark(__doc__, [Table("rows", COLUMNS)], measure=measure)
