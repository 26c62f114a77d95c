"""Rescore a file of N-best lists, list by list, with given weights or with weights tuned on the
file itself.
"""

import contextlib
import os
from collections.abc import Mapping

import numpy as np

from keras_nplm.rescoring.features import (
    FEATURE_NAME,
    Score,
    add_scores,
)
from keras_nplm.rescoring.line_formats import DECODER_SCORE
from keras_nplm.rescoring.losses import Losses, add_losses
from keras_nplm.rescoring.minimum_error_rate import RESTARTS, tune_pairs
from keras_nplm.rescoring.nbest import NBestFile
from keras_nplm.rescoring.ranking import WeightedFeatures
from keras_nplm.rescoring.writer import open_nbest_writer


def rescore_file(
    score: Score,
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
    """Rescore a file: add a language model's features to each hypothesis, rank the lists, and write
    them.

    Args:
        score: returns the scores of texts, as `score_hypotheses` with a language model.
        nbest: the file. It may be larger than memory, but not with `tune_weights`.
        output: the output file; see `open_nbest_writer`. None: standard output. `write=False`: no
            output.
        weights: weight of each feature; see `rank_lists`. With `tune_weights`, the initial weights.
        losses: losses of hypotheses, to report what rescoring gains; see `tune`.
        tune_weights: tune the weights for the smallest loss, with `restarts` random starts from
            `seed`.
        name: name of the language model's feature.

    Returns:
        - `format`; `lists` and `hypotheses`, their numbers; `changed`: the number of lists whose
          first hypothesis is not the decoder's.
        - `weights`; None if each list had its `default_weights`.
        - With `losses`, their sums: `baseline` of the decoder's first hypotheses, `rescored`, and
            `oracle` of the best.
    """
    pairs = add_losses(add_scores(nbest, score, name), losses)
    if tune_weights:
        pairs = list(pairs)
        weights = tune_pairs(pairs, weights, name=name, restarts=restarts, seed=seed)
    weighted = WeightedFeatures(weights, name)
    sums = np.zeros(3)
    num_lists = hypotheses = changed = 0
    writer = (
        open_nbest_writer(output, nbest.format, nbest.header)
        if write
        else contextlib.nullcontext(lambda _: None)
    )
    with writer as write_list:
        for one, loss in pairs:
            order = weighted.rank(one)
            decoder_best = int(np.argmax(one.features.get(DECODER_SCORE, 0)))
            sums += loss[decoder_best], loss.min(), loss[order[0]]
            num_lists = num_lists + 1
            hypotheses = hypotheses + len(one)
            changed += one.texts[order[0]] != one.texts[decoder_best]
            write_list(one.reorder(order))
        weighted.check()
    result = {
        "format": nbest.format,
        "lists": num_lists,
        "hypotheses": hypotheses,
        "changed": changed,
    }
    result["weights"] = None if weights is None else dict(weights)
    if losses:
        result |= dict(zip(("baseline", "oracle", "rescored"), sums.tolist(), strict=True))
    return result
