"""Benchmark `estimation`: speed and peak memory of Kneser-Ney estimation of order 5, by the size of the text.

The text is sampled from an interpolated trigram model of the text of `--corpus`, with 2% of other words, so that its
vocabulary grows with its size (`--tokens`). The command `ngram` counts the vocabulary, encodes the text, estimates the
model with its counts sorted on disk, and evaluates it on 20,000 tokens. The peer is KenLM's `lmplz` with the same text
and vocabulary. It writes binary files (`--intermediate`) and no ARPA text, as `ngram` does. It sorts in 1 GB: more
memory is slower on small texts. `lmplz` must be on the PATH. The source distribution of the Python package kenlm has
its source code. Each command runs in a process of its own on one core.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.corpora import Corpus
from keras_nplm.data.encoding import encode_sentences
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.experiments.benchmark.commands import TimedCommand, call_package, measure_commands, name_texts

_ORDER = 5
_MEMORY = "1G"  # for lmplz to sort in
_LMPLZ = "lmplz"


def measure(corpus: Corpus, rounds: int, tokens: Sequence[int]) -> list[dict]:
    """Return the rows of the benchmark; see `keras_nplm.experiments.benchmark.run_benchmarks`."""
    commands = [
        TimedCommand("ngram", _build_ngram, parts=_read_parts),
        TimedCommand(_LMPLZ, _build_lmplz, peer=True, installed=shutil.which(_LMPLZ) is not None),
    ]
    return measure_commands(commands, corpus, rounds, tokens)


def _build_ngram(texts: Path, results: Path) -> list[str]:
    words = ["ngram", f"--order={_ORDER}", "--min-count=1", "--method=kneser-ney", f"--output={results / 'model'}"]
    return call_package(*words, "--json", *name_texts(texts))


def _read_parts(output: str) -> dict[str, float]:
    """Return the CPU seconds of the estimation alone, from the encoded text to the model."""
    return {"estimation from ids": json.loads(output)["cpu_seconds"]}


def _build_lmplz(texts: Path, results: Path) -> list[str]:
    words = [_LMPLZ, f"--order={_ORDER}", f"--memory={_MEMORY}", f"--temp_prefix={results}/", "--discount_fallback"]
    return [*words, f"--text={texts / 'train.txt'}", f"--intermediate={results / 'model'}"]


def encode_training_text(corpus: Corpus) -> tuple[Vocabulary, np.ndarray]:
    """Return the vocabulary of the training text and the text as ids, int32 [T]."""
    vocabulary = Vocabulary.build(corpus.sentences("train"), min_count=2)
    return vocabulary, encode_sentences(corpus.sentences("train"), vocabulary)
