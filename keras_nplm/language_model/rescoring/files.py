"""Rescore a file of N-best lists, list by list, with given weights or with weights tuned on the file itself."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.language_model.rescoring.features import FEATURE_NAME, add_scores, batch_lists
from keras_nplm.language_model.rescoring.line_formats import DECODER_SCORE
from keras_nplm.language_model.rescoring.losses import Losses
from keras_nplm.language_model.rescoring.nbest import NBestFile, NBestList
from keras_nplm.language_model.rescoring.ranking import Ranker
from keras_nplm.language_model.rescoring.tuning import RESTARTS, tune
from keras_nplm.language_model.rescoring.writer import open_nbest_writer
from keras_nplm.language_model.scoring import ScoringCounts, SentenceScore


def rescore_file(
    score: Callable[..., Sequence[SentenceScore]],
    nbest: NBestFile,
    output: str | os.PathLike | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    losses: Losses | None = None,
    tune_weights: bool = False,
    write: bool = True,
    name: str = FEATURE_NAME,
    restarts: int = RESTARTS,
    seed: int = 0,
) -> dict:
    """Rescore a file: add a language model's features to each hypothesis, rank the lists, and write them.

    Args:
        score: returns the scores of texts and takes `counts=`, such as `LanguageModel.score`. For finite features,
            set its `min_log_prob` to `MIN_LOG_PROB`.
        nbest: the file. With `tune_weights` the file is read twice and scored once.
        output: the output file; see `open_nbest_writer`. None: standard output.
        weights: weight of each feature; see `rank_lists`. With `tune_weights`, the initial weights.
        losses: losses of hypotheses, to report what rescoring gains; see `tune`.
        tune_weights: tune the weights for the smallest loss.
        write: write the output.
        name: name of the language model's feature.
        restarts: number of additional random starts of the tuning.
        seed: random seed of these starts.

    Returns:
        - `format`; `lists` and `hypotheses`, their numbers; `ngrams`, `distinct_ngrams` and `contexts`, see
          `ScoringCounts`.
        - `changed`: the number of lists whose first hypothesis is not the decoder's.
        - `weights`; None if each list had its `default_weights`.
        - With `losses`, sums over the lists: `baseline`, the decoder's first hypotheses; `oracle`, the best
          hypotheses; `rescored`, the first hypotheses after rescoring.

    Raises:
        InputError, RunError: see `NBestFile`, `add_scores`, `rank_lists` and `open_nbest_writer`.
    """
    counts = ScoringCounts()
    score = functools.partial(score, counts=counts)
    if tune_weights:
        scores, loss_values = _Recorder(lambda texts: list(score(texts))), _Recorder(losses)
        weights = tune(add_scores(nbest, scores, name), loss_values, weights, name=name, restarts=restarts, seed=seed)
        score, losses = scores.replay(), loss_values.replay()
    ranker, sums = Ranker(weights, name), np.zeros(3)
    num_lists = hypotheses = changed = 0
    writer = open_nbest_writer(output, nbest.format, nbest.header) if write else contextlib.nullcontext(lambda _: None)
    with writer as write_list:
        for batch in batch_lists(add_scores(nbest, score, name)):
            batch_losses = losses(batch) if losses else [np.zeros(len(one)) for one in batch]
            for one, loss in zip(batch, batch_losses, strict=True):
                order, decoder_best = ranker.rank(one), find_decoder_best(one)
                sums += loss[decoder_best], loss.min(), loss[order[0]]
                num_lists, hypotheses = num_lists + 1, hypotheses + len(one)
                changed += one.texts[order[0]] != one.texts[decoder_best]
                write_list(one.reorder(order))
        ranker.check_weights()
    result = {"format": nbest.format, "lists": num_lists, "hypotheses": hypotheses, **dataclasses.asdict(counts)}
    result |= {"changed": changed, "weights": None if weights is None else dict(weights)}
    if losses:
        result |= dict(zip(("baseline", "oracle", "rescored"), sums.tolist(), strict=True))
    return result


def find_decoder_best(nbest: NBestList) -> int:
    """Return the index of the hypothesis with the greatest decoder score, or 0 without decoder scores."""
    return int(np.argmax(nbest.features[DECODER_SCORE])) if DECODER_SCORE in nbest.features else 0


class _Recorder:
    """A function that records its results, so that a second pass over the file need not compute them again."""

    def __init__(self, function: Callable):
        self._function, self._results = function, []

    def __call__(self, batch: Sequence) -> object:
        self._results.append((len(batch), self._function(batch)))
        return self._results[-1][1]

    def replay(self) -> Callable:
        """Return a function that returns the recorded results, in the order of the calls."""
        results: Iterator = iter(self._results)

        def function(batch: Sequence) -> object:
            size, result = next(results, (None, None))
            if size != len(batch):
                raise InputError(
                    "The file of N-best lists changed while it was read. Fix: rescore it when it is complete."
                )
            return result

        return function
