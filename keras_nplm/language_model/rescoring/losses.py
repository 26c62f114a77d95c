"""What hypotheses lose: their word errors against references, or numbers from a file."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

import keras_nplm.language_model.rescoring.lines as lines_of
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.rescoring.edit_distance import edit_distances
from keras_nplm.language_model.rescoring.nbest import NBestList, numbered_lines, wrong_line

Losses = Callable[[Sequence[NBestList]], Sequence[np.ndarray]]  # of some lists, float [H] of each


class WordErrors:
    """The word errors of each hypothesis, of words between white space; the usual thing to minimise.

        word error rate = sum of errors / sum of the references' words

    Args:
        references: what was said, by the names of lists.

    Example:

    >>> errors = WordErrors({"0": "the old cat"})
    >>> errors([NBestList("0", ["the cat", "the old cat"])])
    [array([1., 0.])]
    >>> errors.unit  # words of the references met so far
    3
    """

    def __init__(self, references: Mapping[str, str]):
        self._references = references
        self.unit = 0

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        """Errors, float64 [H], of each list.

        Raises:
            InputError: a list has no reference.
        """
        hypotheses, references = [], []
        for nbest in lists:
            if nbest.name not in self._references:
                raise InputError(f"There is no reference for the list {nbest.name}: give one for each list.")
            words = self._references[nbest.name].split()
            self.unit += len(words)
            hypotheses += [text.split() for text in nbest.texts]
            references += [words] * len(nbest)
        errors = edit_distances(hypotheses, references).astype(np.float64)
        return np.split(errors, np.cumsum([len(nbest) for nbest in lists])[:-1])

    def end(self) -> None:
        """Say that there are no more lists.

        Raises:
            InputError: the references had no word, so that there is no rate.
        """
        if not self.unit:
            raise InputError("The references of these lists have no word: there is no word error rate.")


class LossFile:
    """Numbers from a file, one a line for each hypothesis in the order of the lists: the less the better.

    Args:
        path: the file; `.gz` and `.zst` are decompressed.

    Raises:
        InputError: the file cannot be read.
    """

    def __init__(self, path: str | os.PathLike):
        self._path = Path(path)
        self._lines = numbered_lines(self._path)
        self.unit = 0  # lists met so far

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        """Losses, float64 [H], of each list.

        Raises:
            InputError: the file ends, or a line is no number.
        """
        self.unit += len(lists)
        return [np.array([self._next(nbest.name) for _ in range(len(nbest))]) for nbest in lists]

    def _next(self, name: str) -> float:
        place, line = next(self._lines, (None, ""))
        if place is None:
            raise InputError(f"{self._path} ends before list {name} does: it must have a number for each hypothesis.")
        try:
            return lines_of.number(line)
        except ValueError as error:
            raise wrong_line(self._path, place, str(error)) from error

    def end(self) -> None:
        """Say that there are no more lists.

        Raises:
            InputError: there are more numbers.
        """
        for place, _ in self._lines:
            raise wrong_line(self._path, place, "there is no hypothesis for it")


def read_references(path: str | os.PathLike, format: str) -> dict[str, str]:
    """What was said, by the names of lists.

    `moses`: line i, from 0, is for the list i. `kaldi`: `utterance words`. `tsv`: id and words with a tab between.

    Args:
        path: the file; `.gz` and `.zst` are decompressed.
        format: of the lists.

    Raises:
        InputError: the file cannot be read, a line is of another form, or two are for one list.

    Example:

    >>> path = getfixture("tmp_path") / "references"
    >>> _ = path.write_text("utt1 the cat\\nutt2 a dog\\n")
    >>> read_references(path, "kaldi")
    {'utt1': 'the cat', 'utt2': 'a dog'}
    """
    references: dict[str, str] = {}
    for place, line in numbered_lines(Path(path)):
        if format == "moses":
            name, text = str(place - 1), line
        else:
            name, text = (*line.split("\t" if format == "tsv" else None, maxsplit=1), "", "")[:2]
        name = name.strip()
        if not name:
            raise wrong_line(path, place, "expected the name of a list and its reference")
        if name in references:
            raise wrong_line(path, place, f"{name} comes again: give one reference for each list")
        references[name] = text
    return references
