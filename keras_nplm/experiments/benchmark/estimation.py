"""Speed and peak memory of Kneser-Ney estimation of order 5.

The text is that of `--corpus` or `--train`, with spaces between its words. `ngram` counts the
vocabulary, encodes the text, estimates the model with its counts sorted on disk, and evaluates it.
The peer is KenLM's `lmplz` (on the PATH; the source distribution of the Python package kenlm has
it) with the same text, in 1 GB; like `ngram` it writes binary files. Each command runs on one core.
"""

import sys
import tempfile
from pathlib import Path

from keras_nplm.experiments.benchmark import Settings, format_ratios
from keras_nplm.experiments.benchmark.contenders import (
    Contender,
    Process,
    build_command,
    measure_group,
)
from keras_nplm.experiments.study import Study
from keras_nplm.experiments.tables import Table

_BUILD = f"{build_command.__module__}:build_command"
_NGRAM = (
    "ngram --order=5 --min-count=1 --method=kneser-ney "
    "--output={results}/model "
    "--tokenizer=whitespace"
)
_LMPLZ = (
    "lmplz --order=5 --memory=1G --temp_prefix={results}/ "
    "--discount_fallback "
    "--intermediate={results}/model"
)
COLUMNS = [
    ("command", "name", ""),
    ("tokens per CPU second", "rate", ",.0f"),
    ("CPU seconds", "cpu_seconds", ",.1f"),
    ("peak memory", lambda row: f"{row['peak_memory'] / 1e6:,.0f} MB", ""),
    ("ratio to peer (min to max)", format_ratios, ""),
]


def measure(settings: Settings) -> list[dict]:
    with tempfile.TemporaryDirectory() as texts:
        flags = []
        tokens = {}
        for split in ("train", "validation", "test"):
            sentences = [sentence for sentence in settings.corpus.sentences(split) if sentence]
            path, tokens[split] = Path(texts, f"{split}.txt"), sum(map(len, sentences))
            path.write_text(
                "".join(f"{' '.join(sentence)}\n" for sentence in sentences), encoding="utf-8"
            )
            flags.append(f"--{split}={path}")
        package = [sys.executable, "-m", "keras_nplm", *_NGRAM.split(), *flags]
        peer = [*_LMPLZ.split(), f"--text={texts}/train.txt"]
        job = {"tokens": tokens["train"], "directory": texts}
        group: list[Contender] = [
            Process("ngram", _BUILD, {"name": "ngram", "words": package} | job),
            Process(
                "lmplz", _BUILD, {"name": "lmplz", "words": peer} | job, peer=True, needs=["lmplz"]
            ),
        ]
        rows = measure_group(group, settings.rounds, warm_up=0)
    return [row | {"name": f"{row['name']}, {tokens['train']:,} tokens"} for row in rows]


STUDY = Study(__doc__, [Table("rows", COLUMNS)], measure=measure)
