"""Losses of hypotheses: word errors against references (word error rate), or numbers of a file."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import SPACES, split_fields
from keras_nplm.language_model.rescoring.features import batch_lists
from keras_nplm.language_model.rescoring.line_formats import parse_number, unescape_moses
from keras_nplm.language_model.rescoring.nbest import NBestList, line_error, name_line, read_numbered_lines

Losses = Callable[[Sequence[NBestList]], Sequence[np.ndarray]]  # of some lists: float [H] per list


def add_losses(lists: Iterable[NBestList], losses: Losses | None) -> Iterator[tuple[NBestList, np.ndarray]]:
    """Yield each list with the losses of its hypotheses, float64 [H]; 0 without a function of losses."""
    for batch in batch_lists(lists):
        yield from zip(batch, losses(batch) if losses else [np.zeros(len(one)) for one in batch], strict=True)


class WordErrors:
    """Word errors of hypotheses: the edit distance to the reference, in words separated by white space.

    `references` are texts by the name of the list; `denominator` is the number of their words so far.

    Reference: Levenshtein (1966), Binary codes capable of correcting deletions, insertions, and reversals.
    """

    def __init__(self, references: Mapping[str, str]):
        self._references = references
        self.denominator = 0

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        errors = []
        for nbest in lists:
            if nbest.name not in self._references:
                raise InputError(f"List {nbest.name} has no reference. Fix: give one reference for each list.")
            words = split_fields(self._references[nbest.name])
            self.denominator += len(words)
            errors.append(np.array([Levenshtein.distance(split_fields(text), words) for text in nbest.texts], float))
        return errors

    def check_end(self) -> None:
        """Check, after the last list, that the word error rate is defined."""
        if not self.denominator:
            raise InputError("The references must have 1 word or more for a word error rate. Received: 0.")


class LossFile:
    """Losses from a file, one number per line for each hypothesis; `denominator` is the number of lists so far."""

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        self._lines = read_numbered_lines(self._path)
        self.denominator = 0

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        self.denominator += len(lists)
        return [np.array([self._read_loss(nbest.name) for _ in range(len(nbest))]) for nbest in lists]

    def _read_loss(self, name: str) -> float:
        line_number, line = next(self._lines, (None, ""))
        if line_number is None:
            raise InputError(f"{self._path} ends before list {name} does. Fix: give one number for each hypothesis.")
        with name_line(self._path, line_number):
            return parse_number(line)

    def check_end(self) -> None:
        """Check, after the last list, that the file has no more lines."""
        for line_number, _ in self._lines:
            raise line_error(self._path, line_number, "the lists have fewer hypotheses than this")


def read_references(path: str | os.PathLike, format: str) -> dict[str, str]:
    """Read reference texts by list: Moses's line i is the reference of list i, the other formats name the list."""
    references: dict[str, str] = {}
    for line_number, line in read_numbered_lines(path, with_blank=format == "moses"):
        if format == "moses":
            name, text = str(line_number - 1), unescape_moses(line)
        else:
            parts = line.split("\t", 1) if format == "tsv" else re.split(f"[{SPACES}]+", line.strip(SPACES), maxsplit=1)
            name, text = (*parts, "")[:2]
        name = name.strip(SPACES)
        if not name:
            raise line_error(path, line_number, "expected the name of a list and its reference")
        if name in references:
            raise line_error(path, line_number, f"{name} has a second reference: keep one per list")
        references[name] = text
    return references
