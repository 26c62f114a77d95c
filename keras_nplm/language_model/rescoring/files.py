"""A file of N-best lists rescored into another, list by list, with weights given or tuned on it."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.language_model.rescoring.lines import SCORE
from keras_nplm.language_model.rescoring.losses import Losses
from keras_nplm.language_model.rescoring.nbest import NBestFile, NBestList
from keras_nplm.language_model.rescoring.reranking import (
    NAME,
    RESTARTS,
    Asked,
    Ranking,
    Score,
    together,
    tune,
    with_scores,
)
from keras_nplm.language_model.rescoring.writing import nbest_writer


def rescore_file(
    score: Score,
    nbest: NBestFile,
    output: str | os.PathLike | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    losses: Losses | None = None,
    tuned: bool = False,
    written: bool = True,
    name: str = NAME,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> dict:
    """Add a language model's features to each hypothesis of a file, rank the lists by them, and write them.

    Args:
        score: see `with_scores`.
        nbest: the file. Where weights are tuned on it, it is read twice and scored once.
        output: the file to write; see `nbest_writer`.
        weights: see `ranked`; with `tuned`, those that the search begins from.
        losses: what hypotheses lose, if it is known what was right: tells what was won; see `tune`.
        tuned: whether the weights are tuned to lose least.
        written: whether anything is written.
        name: of the language model's feature.
        restarts: see `tune`.
        seed: see `tune`.

    Returns:
        `format`; `lists`, `hypotheses`, `ngrams`, `distinct_ngrams` and `contexts`, of what was scored, see
        `SentenceScores`; `changed`, how many lists have another first hypothesis than the decoder's; `weights`, None
        where each list had `default_weights`; with `losses` the sums over the lists of what the decoder's first
        hypotheses lose (`baseline`), the best ones (`oracle`), and those that are first now (`rescored`).

    Raises:
        InputError, RunError: as `NBestFile`, `with_scores`, `ranked` and `nbest_writer`.
    """
    asked = Asked()
    if tuned:
        score, losses = _Kept(score), _Kept(losses)
        found = with_scores(nbest, score, name, asked)
        weights = tune(found, losses, weights, name=name, restarts=restarts, seed=seed)
        score, losses = score.again(), losses.again()
    rank, changed, sums = Ranking(weights, name), 0, np.zeros(3)
    writer = nbest_writer(output, nbest.format, nbest.header) if written else contextlib.nullcontext(lambda _: None)
    with writer as write:
        for some in together(with_scores(nbest, score, name, Asked() if tuned else asked)):
            lost = losses(some) if losses else [np.zeros(len(one)) for one in some]
            for one, loss in zip(some, lost, strict=True):
                order, decoded = rank(one), decoders_choice(one)
                sums += loss[decoded], loss.min(), loss[order[0]]
                changed += one.texts[order[0]] != one.texts[decoded]
                write(one.ordered(order))
        rank.end()
    result = {"format": nbest.format, **dataclasses.asdict(asked), "changed": changed}
    result["weights"] = None if weights is None else dict(weights)
    if losses:
        result |= dict(zip(("baseline", "oracle", "rescored"), sums.tolist(), strict=True))
    return result


def decoders_choice(nbest: NBestList) -> int:
    """The place of the hypothesis of the greatest score, or the first where there is none."""
    return int(np.argmax(nbest.features[SCORE])) if SCORE in nbest.features else 0


class _Kept:
    """A function of parts of a file that keeps what it returned, for when the file is read again."""

    def __init__(self, function: Callable):
        self._function, self._results = function, []

    def __call__(self, part: Sequence) -> object:
        self._results.append((len(part), self._function(part)))
        return self._results[-1][1]

    def again(self) -> Callable:
        """The same function of the same parts, which it must be asked in the same order."""
        results: Iterator = iter(self._results)

        def function(part: Sequence) -> object:
            size, result = next(results, (None, None))
            if size != len(part):
                raise InputError("The file of N-best lists changed while it was read: write it first, then rescore it.")
            return result

        return function
