"""Plain text files as a corpus: a line is a sentence."""

import dataclasses
import glob
import itertools
from collections.abc import Iterator, Sequence
from numbers import Real
from pathlib import Path

from keras_nplm.data.corpora.pieces import (
    Piece,
    cut_files,
    read_piece,
    read_range,
    run_task,
)
from keras_nplm.data.tokenizers import get_tokenizer
from keras_nplm.io.errors import InputError


def expand_patterns(patterns: Sequence[str]) -> list[Path]:
    """The files that names and globs stand for, each once, globs in name order.

    Raises:
        InputError: a name or pattern stands for no file.
    """
    paths: dict[Path, None] = {}
    for pattern in patterns:
        found = [pattern] if Path(pattern).is_file() else sorted(glob.glob(pattern, recursive=True))
        found = [path for path in map(Path, found) if path.is_file()]
        if not found:
            raise InputError(f"No such text file: {pattern}. Check the name (or the pattern) and the directory.")
        paths.update(dict.fromkeys(found))
    return list(paths)


def read_lines(paths: Sequence[Path]) -> Iterator[str]:
    """The lines of UTF-8 files, `.gz` and `.zst` decompressed, as `decode_lines` has them.

    Raises:
        InputError: a file is absent, damaged, holds no text, or is not UTF-8.
    """
    return itertools.chain.from_iterable(map(read_range, paths))


@dataclasses.dataclass(frozen=True)
class TextSplit:
    """A split that lies in text files: calling it iterates over its sentences; its pieces can be read side by side.

    Args:
        pieces: where the text is, in order.
        tokenizer: the name of what splits a line.
        shares: where epochs show a share of each of several texts: (how many pieces it has, its share), in order.
    """

    pieces: Sequence[Piece]
    tokenizer: str
    shares: Sequence[tuple[int, float]] = ()

    def __call__(self) -> Iterator[list[str]]:
        tokenize = get_tokenizer(self.tokenizer)
        return itertools.chain.from_iterable(read_piece(piece, tokenize) for piece in self.pieces)


def split_by_lines(
    paths: Sequence[Path], fractions: tuple[float, float, float], tokenizer: str
) -> dict[str, TextSplit]:
    """Split files into runs of lines: the first for training, then validation, then test.

    Args:
        paths: the files, read one after the other.
        fractions: the shares of the lines; three positive numbers that sum to 1.
        tokenizer: the name of what splits a line into tokens.

    Raises:
        InputError: the fractions do not sum to 1, or there are too few lines to give each split one.
    """
    if not (all(fraction > 0 for fraction in fractions) and abs(sum(fractions) - 1) <= 1e-6):
        raise InputError(f"`fractions` must be three positive numbers that sum to 1. Received: {fractions}.")
    pieces = cut_files(paths)
    task = "keras_nplm.data.corpora.pieces:SentenceCounter"
    counted, _ = run_task(task, {}, [{"piece": piece} for piece in pieces], "Looking for the splits")
    ends = list(itertools.accumulate(value["sentences"] for value in counted))
    sentences = ends[-1]
    first, second = round(sentences * fractions[0]), round(sentences * (fractions[0] + fractions[1]))
    if not 0 < first < second < sentences:
        raise InputError(
            f"{', '.join(map(str, paths))}: {sentences} lines of text are too few to split by {fractions}: "
            "add text, or name --validation and --test files."
        )

    def between(start: int, stop: int) -> TextSplit:
        starts = [0, *ends]
        inside = [(max(start, a) - a, min(stop, b) - a, b - a) for a, b in itertools.pairwise(starts)]
        parts = [
            piece if (low, high) == (0, size) else dataclasses.replace(piece, sentences=(low, high))
            for piece, (low, high, size) in zip(pieces, inside, strict=True)
            if low < high
        ]
        return TextSplit(parts, tokenizer)

    return {"train": between(0, first), "validation": between(first, second), "test": between(second, sentences)}


def is_share(value: object) -> bool:
    """Whether a value is a share of a text that an epoch may show: a number in (0, 1]."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0 < value <= 1


def check_share(value: float) -> float:
    """Refuse what is no such share.

    Raises:
        InputError: it is none.
    """
    if not is_share(value):
        raise InputError(f"The share of a text that an epoch shows must be a number in (0, 1]. Received: {value}.")
    return float(value)


def add_resampled(train: TextSplit, resampled: Sequence[tuple[float, Sequence[Path]]]) -> TextSplit:
    """A training split with more text files, of which an epoch shows a share.

    Args:
        train: what an epoch shows whole; may have no pieces.
        resampled: (share, files) of each of the other texts. None: the split is returned as it is.

    Raises:
        InputError: a file cannot be read, or holds nothing.
    """
    if not resampled:
        return train
    texts = [(1.0, train.pieces), *((check_share(share), cut_files(paths)) for share, paths in resampled)]
    pieces = [piece for _, text in texts for piece in text]
    return TextSplit(pieces, train.tokenizer, tuple((len(text), share) for share, text in texts if text))
