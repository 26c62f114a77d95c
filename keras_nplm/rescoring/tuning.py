"""Tune weights of features for the least loss of the best-ranked hypotheses, such as word errors
against references.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.io.errors import InputError
from keras_nplm.io.text import read_lines, split_fields
from keras_nplm.rescoring.formats import FEATURE_NAME, LineFormat
from keras_nplm.rescoring.lists import NBestList, name_line
from keras_nplm.rescoring.ranking import (
    check_weights,
    default_weights,
    name_features,
)

# of some lists: float [H] per list
Losses = Callable[[Sequence[NBestList]], Sequence[np.ndarray]]
# of the squared weights, from the smoothest expected loss to nearly that of the best-ranked
_PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
# a factor of weights: only the greatest sums of a list, equal but for rounding, have a probability
_SHARP = 1e9
# of a constant feature, relative to its values: its deviation is one of rounding
_ROUNDING = 1e-9


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
        # the number of words of each reference whose list was read
        self._words: dict[str, int] = {}

    @property
    def denominator(self) -> int:
        return sum(self._words.values())

    @property
    def references_without_list(self) -> dict[str, str]:
        """The references, by name, of which no list was read: their words are in no error rate."""
        return {name: text for name, text in self._references.items() if name not in self._words}

    def __call__(self, lists: Sequence[NBestList]) -> list[np.ndarray]:
        errors = []
        for nbest in lists:
            if nbest.name not in self._references:
                raise InputError(
                    f"List {nbest.name} has no reference. Fix: give one reference for each list."
                )
            reference = split_fields(self._references[nbest.name])
            self._words[nbest.name] = len(reference)
            distances = [
                Levenshtein.distance(split_fields(text), reference) for text in nbest.texts
            ]
            errors.append(np.array(distances, np.float64))
        return errors


def read_references(path: str | os.PathLike, format: LineFormat) -> dict[str, str]:
    """Read reference texts by list: Moses's line i is the reference of list i, the other formats
    name the list.

    The first line of TSV may be a header, such as `id<TAB>reference`.
    """
    references: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        with name_line(path, number):
            pair = format.parse_reference(line, len(references))
            if pair is None:
                continue
            name, text = pair
            if name in references:
                raise ValueError(f"{name} has a second reference")
        references[name] = text
    return references


def tune(
    lists: Iterable[NBestList],
    losses: Losses,
    weights: Mapping[str, float] | None = None,
    *,
    name: str = FEATURE_NAME,
) -> dict[str, float]:
    """Tune weights: minimise the loss of the first-ranked hypotheses, at most that of the initial
    weights.

    Args:
        lists: development set of N-best lists, with the language model's features.
        losses: returns the loss of each hypothesis, float [H] per list: `WordErrors`, or any such
            function.
        weights: initial weight of each feature that is tuned. Default: `default_weights`, and 0 for
            the numbers of tokens and of unknown words.
        name: name of the language model's feature.

    Returns:
        weight of each feature; the absolute values sum to 1. The same lists give the same weights.
    """
    # a decoder may find nothing
    pool = [nbest for nbest in check_weights(lists, weights, name) if len(nbest)]
    if not pool:
        raise InputError(
            "`lists` must be 1 N-best list or more, with hypotheses. Received: 0. "
            "Fix: give the lists of a development set."
        )
    own_features = name_features(name)
    defaults = default_weights(pool[0].features, name) | dict.fromkeys(own_features[1:], 0.0)
    initial = weights or defaults
    columns = [
        np.stack([nbest.features.get(feature, np.zeros(len(nbest))) for feature in initial], axis=1)
        for nbest in pool
    ]
    found = [
        nbest.convert_numbers("losses", loss)
        for nbest, loss in zip(pool, losses(pool), strict=True)
    ]
    all_weights = np.array([*initial.values()], np.float64)
    # the ranking of the decoder alone is tried, too: the result is not worse than it
    is_own = [feature in own_features for feature in initial]
    decoder_weights = np.where(is_own, 0.0, all_weights)
    tuned = minimise_loss(
        np.concatenate(columns),
        np.concatenate(found),
        np.array([len(nbest) for nbest in pool]),
        [decoder_weights, all_weights],
    )
    return dict(zip(initial, tuned.tolist(), strict=True))


def minimise_loss(
    features: np.ndarray, losses: np.ndarray, sizes: np.ndarray, initial: Sequence[np.ndarray]
) -> np.ndarray:
    """Minimise the loss of the hypotheses with the greatest w · f: minimum risk training.

    The expected loss of a list under p(h) = exp(w · f_h) / sum_h' exp(w · f_h') is smooth in the
    weights w, and that of long w the loss of the best. The mean over lists plus a penalty c |w|² is
    minimised for falling c, each time from the w before. Of all these w, and of the initial
    weights, those of the least loss are returned; of equals the first. Equally ranked hypotheses of
    a list count with their mean loss.

    Args:
        features: float [H, K], of all lists. losses: float [H]. sizes: of the lists, int [S].
        initial: float [K] each.

    Returns:
        w, float64 [K]; the absolute values sum to 1.

    Reference: Smith and Eisner (2006), Minimum risk annealing for training log-linear models.
    """
    from scipy.optimize import minimize

    scaled, spread = _standardise(features, sizes)
    scaled_losses, _ = _standardise(losses, sizes)
    starts = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(sizes)), sizes)

    def expect(weights: np.ndarray, penalty: float = 0.0) -> tuple[float, np.ndarray]:
        """Return the mean of the expected losses with the penalty, and its gradient, [K]."""
        sums = scaled @ weights
        powers = np.exp(sums - np.maximum.reduceat(sums, starts)[owners])
        probs = powers / np.add.reduceat(powers, starts)[owners]
        expected = np.add.reduceat(probs * scaled_losses, starts)
        slopes = probs * (scaled_losses - expected[owners]) / len(sizes)
        loss = expected.mean() + penalty * weights @ weights
        return float(loss), slopes @ scaled + 2 * penalty * weights

    path = [np.zeros(len(spread))]
    for penalty in _PENALTIES:
        path.append(minimize(expect, path[-1], (penalty,), jac=True).x)
    tried = [*path, *(weights * spread for weights in initial), np.ones(len(spread))]
    # those that rank nothing would leave the order of the file
    tried = [weights / np.abs(weights).max() for weights in tried if weights.any()]
    # rounded: sums of equal losses may differ in the last digits
    least = np.argmin([round(expect(weights * _SHARP)[0], 12) for weights in tried])
    best = tried[least] / spread
    return best / np.abs(best).sum()


def _standardise(values: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values [H, …] minus the mean of their list, divided by the standard deviation of all;
    1 for constants.
    """
    starts = np.cumsum(sizes) - sizes
    means = (np.add.reduceat(values, starts).T / sizes).T
    centered = values - np.repeat(means, sizes, axis=0)
    spread = centered.std(axis=0)
    spread = np.where(spread > _ROUNDING * np.abs(values).max(axis=0), spread, 1.0)
    return centered / spread, spread
