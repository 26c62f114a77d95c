"""Losses of hypotheses: word errors against references, for the word error rate."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import SPACES, split_fields
from keras_nplm.rescoring.features import batch_lists
from keras_nplm.rescoring.line_formats import is_reference_header, unescape_moses
from keras_nplm.rescoring.nbest import NBestList, line_error, read_numbered_lines

# of some lists: float [H] per list
Losses = Callable[[Sequence[NBestList]], Sequence[np.ndarray]]


def add_losses(
    lists: Iterable[NBestList], losses: Losses | None
) -> Iterator[tuple[NBestList, np.ndarray]]:
    """Yield each list with the losses of its hypotheses, float64 [H]; 0 without a function of
    losses.
    """
    find_losses = losses or _find_no_losses
    for batch in batch_lists(lists):
        for nbest, found in zip(batch, find_losses(batch), strict=True):
            yield nbest, nbest.convert_numbers("losses", found, finite=True)


def _find_no_losses(lists: Sequence[NBestList]) -> list[np.ndarray]:
    return [np.zeros(len(nbest)) for nbest in lists]


class WordErrors:
    """Word errors of hypotheses: the edit distance to the reference, in words separated by white
    space.

    `references` are texts by the name of the list; `denominator` is the number of the words of
    those whose lists were read. A loss of `tune`.

    >>> errors = WordErrors({"1": "the cat sat"})
    >>> [losses] = errors([NBestList("1", ["the cat sat", "a cat"])])
    >>> losses.tolist(), errors.denominator
    ([0.0, 2.0], 3)

    Reference: Levenshtein (1966), Binary codes capable of correcting deletions, insertions, and
    reversals.
    """

    def __init__(self, references: Mapping[str, str]):
        self._references = references
        self._without_list = dict.fromkeys(references)
        self.denominator = 0

    @property
    def references_without_list(self) -> dict[str, str]:
        """The references, by name, of which no list was read: their words are in no error rate."""
        return {name: self._references[name] for name in self._without_list}

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        errors = []
        for nbest in lists:
            if nbest.name not in self._references:
                raise InputError(
                    f"List {nbest.name} has no reference. Fix: give one reference for each list."
                )
            reference = split_fields(self._references[nbest.name])
            self.denominator += len(reference)
            self._without_list.pop(nbest.name, None)
            distances = [
                Levenshtein.distance(split_fields(text), reference) for text in nbest.texts
            ]
            errors.append(np.array(distances, np.float64))
        return errors


def read_references(path: str | os.PathLike, format: str) -> dict[str, str]:
    """Read reference texts by list: Moses's line i is the reference of list i, the other formats
    name the list.

    The first line of TSV may be a header, such as `id<TAB>reference`.
    """
    references: dict[str, str] = {}
    # a blank line of Moses is an empty reference
    for line_number, line in read_numbered_lines(path, with_blank=format == "moses"):
        if format == "tsv" and not references and is_reference_header(line):
            continue
        if format == "moses":
            name = str(line_number - 1)
            text = unescape_moses(line)
        else:
            name, text = _split_name(line, format)
        if not name:
            between = ", a tab between them" if format == "tsv" else ""
            message = f"expected the name of a list and its reference{between}"
            raise line_error(path, line_number, message)
        if name in references:
            raise line_error(path, line_number, f"{name} has a second reference")
        references[name] = text
    return references


def _split_name(line: str, format: str) -> tuple[str, str]:
    """Return the name of the list and the reference, which may be empty."""
    if format == "tsv":
        name, tab, text = line.partition("\t")
        if not tab and len(split_fields(line)) > 1:
            # the whole line would be the name of a list
            return "", ""
        return name.strip(SPACES), text
    fields = re.split(f"[{SPACES}]+", line.strip(SPACES), maxsplit=1)
    text = fields[1] if len(fields) == 2 else ""
    return fields[0], text
