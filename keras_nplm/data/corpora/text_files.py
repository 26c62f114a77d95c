"""Plain text files as a corpus: one sentence a line, split by files or by runs of lines."""

import dataclasses
import glob
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from keras_nplm.data.arguments import check_items
from keras_nplm.data.corpora.pieces import Piece, cut_files, read_range, read_sentence_lines, run_task
from keras_nplm.data.tokenizers import get_tokenizer, uses_subwords
from keras_nplm.io.errors import InputError
from keras_nplm.io.paths import is_remote
from keras_nplm.io.remote import fetch_files


def expand_patterns(patterns: Sequence[str]) -> list[Path]:
    """List the files that names and globs match, each once, the files of a glob in name order.

    Remote files, `gs://` and `s3://`, are downloaded to a cache, and listed as its files.
    """
    paths: dict[Path, None] = {}
    for pattern in map(os.fspath, check_items(patterns, "files", str | os.PathLike, "a list of file names")):
        if is_remote(pattern):
            found = fetch_files(pattern)
        else:
            found = [Path(pattern)]  # a pipe, too; `open_text` refuses what it cannot read
            if not os.path.lexists(pattern):
                found = [path for path in map(Path, sorted(glob.glob(pattern, recursive=True))) if path.is_file()]
        if not found:
            raise InputError(f"No such text file: {pattern}. Fix: check the name (or pattern) and the directory.")
        paths.update(dict.fromkeys(found))
    return list(paths)


def read_lines(paths: Sequence[Path]) -> Iterator[str]:
    """Read the lines of UTF-8 files, plain or compressed; see `open_text` and `decode_lines`."""
    return itertools.chain.from_iterable(map(read_range, paths))


@dataclasses.dataclass(frozen=True)
class LineSplit:
    """A split of a corpus as lines of text with their tokenizer. Calling it iterates over its tokenised sentences.

    Args:
        lines: a function that returns an iterator over the lines.
        tokenize: a function from a line to its tokens. Lines without tokens are skipped.

    Example:

    >>> list(LineSplit(lambda: iter(["the cat", "", "a dog"]), str.split)())
    [['the', 'cat'], ['a', 'dog']]
    """

    lines: Callable[[], Iterator[str]]
    tokenize: Callable[[str], list[str]]

    def __call__(self) -> Iterator[list[str]]:
        return filter(None, map(self.tokenize, self.lines()))


@dataclasses.dataclass(frozen=True)
class TextSplit:
    """A split of a corpus in text files or in a prepared TFDS set. Calling it iterates over its tokenised sentences.

    With the tokenizer `sentencepiece` the sentences are lines, since subwords are not known before they are trained.

    Args:
        pieces: the places of the text, in order.
        tokenizer: name of the tokenizer.
        shares: for resampling: (number of pieces, share of its n-grams in an epoch) of each text, in order.
    """

    pieces: Sequence[Piece]
    tokenizer: str
    shares: Sequence[tuple[int, float]] = ()

    def lines(self) -> Iterator[str]:
        """Read the lines that are not blank."""
        return itertools.chain.from_iterable(map(read_sentence_lines, self.pieces))

    @property
    def tokenize(self) -> Callable[[str], list[str]]:
        """The tokenizer, a function from a line to its tokens."""
        return get_tokenizer(self.tokenizer)

    def __call__(self) -> Iterator[Any]:
        return self.lines() if uses_subwords(self.tokenizer) else filter(None, map(self.tokenize, self.lines()))


def split_by_lines(
    paths: Sequence[Path], fractions: tuple[float, float, float], tokenizer: str
) -> dict[str, TextSplit]:
    """Split files into three runs of lines: the first for training, the next for validation, the last for test."""
    if not (all(fraction > 0 for fraction in fractions) and abs(sum(fractions) - 1) <= 1e-6):
        raise InputError(f"`fractions` must be three positive numbers that sum to 1. Received: {fractions}.")
    pieces = cut_files(paths)
    task = "keras_nplm.data.corpora.pieces:SentenceCounter"
    counts, _ = run_task(task, {}, [{"piece": piece} for piece in pieces], "Counting lines")
    ends = list(itertools.accumulate(value["sentences"] for value in counts))
    sentences = ends[-1]
    first, second = round(sentences * fractions[0]), round(sentences * (fractions[0] + fractions[1]))
    if not 0 < first < second < sentences:
        raise InputError(
            f"{', '.join(map(str, paths))}: {sentences} lines of text are too few to split by {fractions}. Fix: add "
            "text, or name --validation and --test files."
        )
    bounds = {"train": (0, first), "validation": (first, second), "test": (second, sentences)}
    return {split: TextSplit(_cut_pieces(pieces, ends, *bound), tokenizer) for split, bound in bounds.items()}


def _cut_pieces(pieces: Sequence[Piece], ends: Sequence[int], start: int, stop: int) -> list[Piece]:
    """Cut the sentences `start` to `stop` out of pieces, the last sentences of which are `ends`."""
    parts = []
    for piece, (first, end) in zip(pieces, itertools.pairwise([0, *ends]), strict=True):
        low, high = max(start, first), min(stop, end)
        if (low, high) == (first, end) and low < high:
            parts.append(piece)
        elif low < high:
            parts.append(dataclasses.replace(piece, sentences=(low - first, high - first)))
    return parts


def is_share(value: object) -> bool:
    """Return whether a value is a share for resampling: a number in (0, 1]."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < value <= 1


def check_share(value: float) -> float:
    """Check a share for resampling and return it as a float."""
    if not is_share(value):
        raise InputError(f"The share of a text in an epoch must be a number in (0, 1]. Received: {value}.")
    return float(value)


def add_resampled(train: TextSplit, resampled: Sequence[tuple[float, Sequence[Path]]]) -> TextSplit:
    """Add text files to a training split, of which each epoch has only a share of the n-grams."""
    if not resampled:
        return train
    texts = [(1.0, train.pieces), *((check_share(share), cut_files(paths)) for share, paths in resampled)]
    pieces = [piece for _, text in texts for piece in text]
    return TextSplit(pieces, train.tokenizer, tuple((len(text), share) for share, text in texts if text))
