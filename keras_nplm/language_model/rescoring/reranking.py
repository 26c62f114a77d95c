"""N-best lists with what a language model says of them: features added, weights tuned, hypotheses ranked anew."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import Progress
from keras_nplm.language_model.rescoring.lines import SCORE
from keras_nplm.language_model.rescoring.losses import Losses
from keras_nplm.language_model.rescoring.minimum_error_rate import Candidates, minimise_error
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.sentences import SentenceScores

NAME = "nplm"  # of the feature, unless it is told another
FLOOR = -99 * math.log(10)  # ln P of what has no probability, as ARPA files have it: ranks stay numbers
RESTARTS = 8
_CHARACTERS = 1 << 20  # of hypotheses that are scored together
_LISTS_TO_MEET = 100  # among which each feature with a weight must have been seen

Score = Callable[[Sequence[str]], SentenceScores]


@dataclasses.dataclass
class Asked:
    """What was scored, and what of it the model was asked for: see `SentenceScores`."""

    lists: int = 0
    hypotheses: int = 0
    ngrams: int = 0
    distinct_ngrams: int = 0
    contexts: int = 0


def with_scores(
    lists: Iterable[NBestList], score: Score, name: str = NAME, asked: Asked | None = None
) -> Iterator[NBestList]:
    """Lists with the features of a language model, in bounded memory: those that make a megabyte are scored together.

    The features are NAME, ln P of the hypothesis; NAME_words, how many tokens were predicted; NAME_unk, how many of
    them are unknown words.

    Args:
        lists: of any number.
        score: gives ln P and counts of texts, n-grams that they share asked once; see `score_sentences`.
        name: NAME.
        asked: where it is counted what the model was asked for.

    Raises:
        InputError: a hypothesis holds a reserved token, or a list has a feature of that name.
    """
    asked = asked or Asked()
    progress = Progress("Scoring")
    for some in together(lists):
        scores = _scores(some, score)
        asked.lists += len(some)
        asked.hypotheses += len(scores.log_probs)
        asked.ngrams += scores.ngrams
        asked.distinct_ngrams += scores.distinct_ngrams
        asked.contexts += scores.contexts
        progress.add(scores.ngrams)
        columns = np.stack([scores.log_probs, scores.tokens, scores.unk_tokens])  # [3, H of all]
        names = (name, f"{name}_words", f"{name}_unk")
        for nbest, part in zip(some, np.split(columns, np.cumsum([*map(len, some)])[:-1], axis=1), strict=True):
            yield nbest.with_features(dict(zip(names, part, strict=True)))
    progress.close()


def together(lists: Iterable[NBestList]) -> Iterator[list[NBestList]]:
    """As many lists at a time as make a megabyte."""
    some, size = [], 0
    for nbest in lists:
        some.append(nbest)
        size += sum(map(len, nbest.texts)) + len(nbest)
        if size >= _CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _scores(lists: list[NBestList], score: Score) -> SentenceScores:
    try:
        return score([text for nbest in lists for text in nbest.texts])
    except InputError:
        for nbest in lists:  # which of them it was
            try:
                score(nbest.texts)
            except InputError as error:
                raise InputError(f"List {nbest.name}: {error}") from error
        raise


def default_weights(features: Iterable[str], name: str = NAME) -> dict[str, float]:
    """1 for the decoder's total, or where there is none for each feature of the list; 1 for the language model.

    Example:

    >>> default_weights(["LM", "score", "nplm"]), default_weights(["acoustic", "nplm", "nplm_words"])
    ({'score': 1.0, 'nplm': 1.0}, {'acoustic': 1.0, 'nplm': 1.0})
    """
    features = [feature for feature in features if feature not in (name, f"{name}_words", f"{name}_unk")]
    return dict.fromkeys([*([SCORE] if SCORE in features else features), name], 1.0)


def ranked(
    lists: Iterable[NBestList], weights: Mapping[str, float] | None = None, name: str = NAME
) -> Iterator[NBestList]:
    """Lists in the order of sum_k w_k f_k, the greatest first, equals as they were.

    Args:
        lists: with the features that have weights; one that a list lacks is 0 there.
        weights: w, by the names of features. Default: see `default_weights`.
        name: of the language model's feature.

    Raises:
        InputError: a weight is not finite, or no list has its feature.

    Example:

    >>> lists = [NBestList("0", ["a", "the"], {"score": np.array([-1.0, -2.0]), "nplm": np.array([-9.0, -4.0])})]
    >>> [(nbest.texts, nbest.totals.tolist()) for nbest in ranked(lists, {"score": 1, "nplm": 0.5})]
    [(['the', 'a'], [-4.0, -5.5])]
    """
    rank = Ranking(weights, name)
    for nbest in lists:
        yield nbest.ordered(rank(nbest))
    rank.end()


class Ranking:
    """What `ranked` does, list by list: calling it gives a list its totals and returns the order, int64 [H].

    Args:
        weights, name: see `ranked`.
    """

    def __init__(self, weights: Mapping[str, float] | None, name: str = NAME):
        for feature, weight in (weights or {}).items():
            if not math.isfinite(weight):
                raise InputError(f"The weight of {feature} must be a finite number. Received: {weight}.")
        self._weights, self._name = weights, name
        self._missing, self._known, self._lists = set(weights or ()), {}, 0

    def __call__(self, nbest: NBestList) -> np.ndarray:
        """Set what the list is ranked by, and which of the language model's features count."""
        self.meet(nbest)
        weights = default_weights(nbest.features, self._name) if self._weights is None else self._weights
        nbest.totals = np.zeros(len(nbest))
        with np.errstate(over="ignore", invalid="ignore"):
            for feature, weight in weights.items():
                nbest.totals += weight * nbest.features.get(feature, 0.0)
        if not np.isfinite(nbest.totals).all():
            raise InputError(f"The weights make totals of list {nbest.name} that are not finite: give smaller ones.")
        nbest.added = tuple(feature for feature in nbest.added if feature == self._name or weights.get(feature))
        return np.argsort(-nbest.totals, kind="stable")

    def meet(self, nbest: NBestList) -> None:
        """Look which features a list has."""
        self._lists += 1
        if self._missing:
            self._known |= dict.fromkeys(nbest.features)
            self._missing -= self._known.keys()
            if self._lists >= _LISTS_TO_MEET:
                self.end()

    def end(self) -> None:
        """Say that there are no more lists.

        Raises:
            InputError: a feature with a weight was in none.
        """
        if self._missing:
            known = ", ".join(self._known) or "none"
            raise InputError(f"The lists have no feature {min(self._missing)} to give a weight: there are {known}.")


def tune(
    lists: Iterable[NBestList],
    losses: Losses,
    weights: Mapping[str, float] | None = None,
    *,
    name: str = NAME,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> dict[str, float]:
    """The weights with which the first hypotheses of a development list lose least; see `minimise_error`.

    They never lose more than without the language model, nor than with the weights that the search begins from.

    Args:
        lists: with the language model's features.
        losses: of some lists what is to be minimised of each hypothesis, float [H] of each list, summed over those that
            come first: `WordErrors`, or any such function.
        weights: the features that get a weight, and where the search begins. Default: those of `default_weights`, and
            the numbers of words and of unknown words from 0.
        name: of the language model's feature.
        restarts: how many more beginnings are drawn.
        seed: of these.

    Returns:
        weights, by the names of features; their absolute values sum to 1.

    Raises:
        InputError: there is no list, or no list has a feature that is to get a weight.

    Example:

    >>> lists = [NBestList("0", ["a", "the"], {"score": np.array([-1.0, -2.0]), "nplm": np.array([-9.0, -4.0])})]
    >>> tuned = tune(lists, lambda lists: [np.array([1.0, 0.0])], {"score": 1, "nplm": 0})
    >>> [nbest.texts[0] for nbest in ranked(lists, tuned)]
    ['the']
    """
    begin, met = dict(weights or {}), Ranking(weights, name)
    rows, lost, sizes = [], [], []
    for some in together(lists):
        for nbest, loss in zip(some, losses(some), strict=True):
            begin = begin or {**default_weights(nbest.features, name), f"{name}_words": 0.0, f"{name}_unk": 0.0}
            met.meet(nbest)
            none = np.zeros(len(nbest))
            rows.append(np.stack([nbest.features.get(feature, none) for feature in begin], axis=1))
            lost.append(np.asarray(loss, np.float64))
            sizes.append(len(nbest))
    met.end()
    if not sizes:
        raise InputError("There is no list to tune weights on.")
    candidates = Candidates(np.concatenate(rows), np.cumsum([0, *sizes[:-1]]), np.concatenate(lost)[:, None])
    mine = (name, f"{name}_words", f"{name}_unk")
    without = {feature: 0.0 if feature in mine else weight for feature, weight in begin.items()}
    starts = [np.array(list(start.values())) for start in (without, begin)]
    found, _ = minimise_error(candidates, starts, restarts=restarts, seed=seed)
    return dict(zip(begin, found.tolist(), strict=True))
