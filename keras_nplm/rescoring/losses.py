"""Losses of hypotheses: word errors against references, for the word error rate."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import SPACES, split_fields
from keras_nplm.rescoring.features import batch_lists
from keras_nplm.rescoring.line_formats import unescape_moses
from keras_nplm.rescoring.nbest import NBestList, line_error, read_numbered_lines

Losses = Callable[[Sequence[NBestList]], Sequence[np.ndarray]]  # of some lists: float [H] per list


def add_losses(
    lists: Iterable[NBestList], losses: Losses | None
) -> Iterator[tuple[NBestList, np.ndarray]]:
    """Yield each list with the losses of its hypotheses, float64 [H]; 0 without a function of
    losses.
    """
    for batch in batch_lists(lists):
        yield from zip(
            batch, losses(batch) if losses else [np.zeros(len(one)) for one in batch], strict=True
        )


class WordErrors:
    """Word errors of hypotheses: the edit distance to the reference, in words separated by white
    space.

    `references` are texts by the name of the list; `denominator` is the number of their words so
    far.

    Reference: Levenshtein (1966), Binary codes capable of correcting deletions, insertions, and
    reversals.
    """

    def __init__(self, references: Mapping[str, str]):
        self._references = references
        self.denominator = 0

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        errors = []
        for nbest in lists:
            if nbest.name not in self._references:
                raise InputError(
                    f"List {nbest.name} has no reference. Fix: give one reference for each list."
                )
            words = split_fields(self._references[nbest.name])
            self.denominator += len(words)
            errors.append(
                np.array(
                    [Levenshtein.distance(split_fields(text), words) for text in nbest.texts], float
                )
            )
        return errors


def read_references(path: str | os.PathLike, format: str) -> dict[str, str]:
    """Read reference texts by list: Moses's line i is the reference of list i, the other formats
    name the list.
    """
    references: dict[str, str] = {}
    for line_number, line in read_numbered_lines(path, with_blank=format == "moses"):
        if format == "moses":
            name = str(line_number - 1)
            text = unescape_moses(line)
        else:
            parts = (
                line.split("\t", 1)
                if format == "tsv"
                else re.split(f"[{SPACES}]+", line.strip(SPACES), maxsplit=1)
            )
            name, text = (*parts, "")[:2]
        name = name.strip(SPACES)
        if not name:
            raise line_error(path, line_number, "expected the name of a list and its reference")
        if name in references:
            raise line_error(path, line_number, f"{name} has a second reference: keep one per list")
        references[name] = text
    return references
