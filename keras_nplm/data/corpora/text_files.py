"""Plain text files as a corpus: one sentence a line, split by files or by runs of lines."""

import dataclasses
import glob
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_nplm.data.arguments import check_items
from keras_nplm.data.corpora.chunks import (
    Chunk,
    TextChunk,
    count_sentences,
    cut_files,
    map_chunks,
    read_open_file,
    read_range,
)
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.paths import STANDARD_INPUT, is_remote
from keras_nplm.io.remote import fetch, fetch_files
from keras_nplm.io.standard_input import take_standard_input
from keras_nplm.io.text import open_text


def expand_patterns(patterns: str | os.PathLike | Sequence[str]) -> list[Path]:
    """List the files that names and globs match, each once, the files of a glob in name order,
    remote ones and standard input (`-`) as local copies. One name may stand alone.
    """
    paths: dict[Path, None] = {}
    if isinstance(patterns, str | os.PathLike):
        patterns = [os.fspath(patterns)]
    for pattern in map(
        os.fspath, check_items(patterns, "files", str | os.PathLike, "a list of file names")
    ):
        if is_remote(pattern):
            found = fetch_files(pattern)
        else:
            found = [fetch(pattern)]  # a pipe, too; `open_text` refuses what it cannot read
            if not os.path.lexists(found[0]):
                found = [
                    path
                    for path in map(Path, sorted(glob.glob(pattern, recursive=True)))
                    if path.is_file()
                ]
        if not found:
            raise InputError(
                f"No such text file: {pattern}. Fix: check the name (or pattern) and the directory."
            )
        paths.update(dict.fromkeys(found))
    return list(paths)


def read_lines(paths: Sequence[Path], field: str | None = None) -> Iterator[str]:
    """Read the lines of UTF-8 files, plain or compressed, or those of a field; see `read_range`."""
    return itertools.chain.from_iterable(read_range(path, field=field) for path in paths)


def read_files(patterns: Sequence[str], field: str | None = None) -> Iterator[str]:
    """Read the lines of the files that names and globs match, or of standard input if the only name
    is `-`; see `read_range` for the field.
    """
    if list(patterns) == [STANDARD_INPUT]:
        return _read_standard_input(field)
    return read_lines(expand_patterns(patterns), field)


def _read_standard_input(field: str | None) -> Iterator[str]:
    with open_text("standard input", take_standard_input()) as file:
        yield from read_open_file(file, "standard input", field=field)


@dataclasses.dataclass(frozen=True)
class LineSplit:
    """A split of a corpus as lines of text with their tokenizer.

    Calling it iterates over its tokenised sentences, which are lines if the tokens are subwords.
    """

    lines: Callable[[], Iterator[str]]
    tokenize: Callable[[str], Sequence[str]]

    def __call__(self) -> Iterator[Sequence[str]]:
        return filter(None, map(self.tokenize, self.lines()))


@dataclasses.dataclass(frozen=True)
class TextSplit:
    """A split of a corpus in text files or in a prepared TFDS set, as `LineSplit`; lines if the
    tokens are subwords.
    """

    chunks: Sequence[Chunk]
    tokenizer: str
    # for resampling: (number of chunks, share in an epoch) of each text
    shares: Sequence[tuple[int, float]] = ()

    def lines(self) -> Iterator[str]:
        """Read the lines; a blank one is `""`."""
        return itertools.chain.from_iterable(chunk.lines() for chunk in self.chunks)

    @property
    def tokenize(self) -> Callable[[str], list[str]]:
        return get_tokenizer(self.tokenizer).split

    def __call__(self) -> Iterator[Sequence[str]]:
        if get_tokenizer(self.tokenizer).is_trained:
            return filter(None, self.lines())
        return filter(None, map(self.tokenize, self.lines()))


def find_text_splits(corpus: Corpus, names: Iterable[str]) -> dict[str, TextSplit] | None:
    """Return splits by their names, or None unless each is of text files or of a TFDS set."""
    found: dict[str, TextSplit] = {}
    for name in names:
        split = corpus.splits[name]
        if not isinstance(split, TextSplit):
            return None
        found[name] = split
    return found


def split_by_lines(
    paths: Sequence[Path],
    fractions: tuple[float, float, float],
    tokenizer: str,
    field: str | None = None,
) -> dict[str, TextSplit]:
    """Split files into three runs of lines: the first for training, the next for validation, the
    last for test.
    """
    _check_fractions(fractions)
    chunks = cut_files(paths, field)
    counts = map_chunks(count_sentences, [(chunk,) for chunk in chunks], "Counting lines")
    ends = list(itertools.accumulate(counts))
    sentences = ends[-1]
    first = round(sentences * fractions[0])
    second = round(sentences * (fractions[0] + fractions[1]))
    if not 0 < first < second < sentences:
        # one line for each split
        shares = "larger shares by --fractions, " if sentences >= len(SPLITS) else ""
        raise InputError(
            f"{', '.join(map(str, paths))}: {sentences} lines of text are too few to split by "
            f"{fractions}. Fix: add text, {shares}or name --validation and --test files."
        )
    bounds = {"train": (0, first), "validation": (first, second), "test": (second, sentences)}
    return {
        split: TextSplit(_select_chunks(chunks, ends, *bound), tokenizer)
        for split, bound in bounds.items()
    }


def split_at_random(
    paths: Sequence[Path],
    fractions: tuple[float, float, float],
    tokenizer: str,
    field: str | None = None,
) -> dict[str, TextSplit]:
    """Split files by lines that are chosen at random: by the digest of each line.

    So equal lines fall into one split, and no memory depends on the size of the text. Documents
    are torn apart: blank lines are left out.
    """
    _check_fractions(fractions)
    chunks = cut_files(paths, field)
    bounds = [0.0, fractions[0], fractions[0] + fractions[1], 1.0]
    return {
        split: TextSplit([dataclasses.replace(chunk, places=part) for chunk in chunks], tokenizer)
        for split, part in zip(SPLITS, itertools.pairwise(bounds), strict=True)
    }


def _check_fractions(fractions: tuple[float, float, float]) -> None:
    are_positive = len(fractions) == 3 and all(fraction > 0 for fraction in fractions)
    check_argument(
        "fractions",
        are_positive and abs(sum(fractions) - 1) <= 1e-6,
        "three positive numbers that sum to 1",
        fractions,
        "give numbers such as (0.8, 0.1, 0.1).",
    )


def _select_chunks(
    chunks: Sequence[TextChunk], ends: Sequence[int], start: int, stop: int
) -> list[TextChunk]:
    """Select the sentences `start` to `stop` of chunks, the last sentences of which are `ends`."""
    selected = []
    for chunk, (first, end) in zip(chunks, itertools.pairwise([0, *ends]), strict=True):
        low = max(start, first)
        high = min(stop, end)
        if low < high:
            whole = (low, high) == (first, end)
            selected.append(
                chunk
                if whole
                else dataclasses.replace(chunk, sentences=(low - first, high - first))
            )
    return selected
