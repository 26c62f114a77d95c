"""Speed and peak memory of Kneser-Ney estimation of order 5.

The text is the training text of `--corpus`, with spaces between its words. `ngram
--all` counts the vocabulary, encodes the text, and estimates the model with its counts sorted on
disk. The peer is KenLM's `lmplz` (on the PATH; the source distribution of the Python package kenlm
has it) with the same text, in 1 GB; like `ngram` it writes binary files.
"""

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.contenders import Contender, Process, build_command, declare_speed
from tests.benchmarks.report import Column, Settings

_BUILD = f"{build_command.__module__}:build_command"
_NGRAM = (
    "ngram --order=5 --min-count=1 --method=kneser-ney --output={results}/model "
    "--tokenizer=whitespace --all"
)
_LMPLZ = (
    "lmplz --order=5 --memory=1G --temp_prefix={results}/ --discount_fallback "
    "--intermediate={results}/model"
)


COLUMNS: list[Column] = [
    ("command", "name", ""),
    ("tokens per CPU second", "rate", ",.0f"),
    ("CPU seconds", "cpu_seconds", ",.1f"),
    ("peak memory", "peak_memory", "megabytes"),
    ("ratio to peer (min to max)", "ratio_to", "ratios"),
]


def build_groups(settings: Settings) -> Iterator[list[Contender]]:
    with tempfile.TemporaryDirectory() as directory:
        text = Path(directory, "train.txt")
        tokens = _write_text(text, settings.corpus.sentences("train"))
        ngram = [sys.executable, "-m", "keras_nplm", *_NGRAM.split(), f"--train={text}"]
        lmplz = [*_LMPLZ.split(), f"--text={text}"]
        group: list[Contender] = []
        for words, needs in ((ngram, []), (lmplz, ["lmplz"])):
            name = f"{needs[0] if needs else 'ngram'}, {tokens:,} tokens"
            arguments = {"name": name, "words": words, "tokens": tokens, "directory": directory}
            group.append(Process(name, _BUILD, arguments, needs, peer=bool(needs)))
        yield group


def _write_text(path: Path, sentences: Iterable[Sequence[str]]) -> int:
    """Write sentences, a line each, without the empty ones. Return their number of tokens."""
    tokens = 0
    with path.open("w", encoding="utf-8") as file:
        for sentence in filter(None, sentences):
            tokens += len(sentence)
            file.write(f"{' '.join(sentence)}\n")
    return tokens


REPORT = declare_speed(__doc__, build_groups, COLUMNS, warm_up=0)
