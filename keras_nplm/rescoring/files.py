"""Rescore a file of N-best lists, list by list, with given weights or with weights tuned on the
file itself.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping

import numpy as np

from keras_nplm.io.errors import check_argument
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.rescoring.features import FEATURE_NAME, Score, add_scores, name_features
from keras_nplm.rescoring.lists import score_hypotheses
from keras_nplm.rescoring.losses import Losses, add_losses
from keras_nplm.rescoring.minimum_error_rate import RESTARTS, tune_pairs
from keras_nplm.rescoring.nbest import NBestFile, NBestList
from keras_nplm.rescoring.ranking import WeightedFeatures, find_total
from keras_nplm.rescoring.writer import open_nbest_writer

_MOST_HELD = 1000  # lists that wait for features of their weights, so that memory is bounded


def rescore_file(
    score: Score | LanguageModel,
    nbest: NBestFile,
    output: str | os.PathLike | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    losses: Losses | None = None,
    tune_weights: bool = False,
    write: bool = True,
    name: str = FEATURE_NAME,
    restarts: int | None = None,
    seed: int | None = None,
) -> dict:
    """Rescore a file: add a language model's features to each hypothesis, rank the lists, and write
    them.

    Args:
        score: a language model, or a function that returns the scores of texts.
        nbest: the file. It may be larger than memory, but not with `tune_weights`.
        output: the output file; see `open_nbest_writer`. None: standard output. `write=False`: no
            output, and no file named.
        weights: weight of each feature; see `rank_lists`. With `tune_weights`, the initial weights.
        losses: losses of hypotheses, to report what rescoring gains; see `tune`.
        tune_weights: tune the weights for the smallest loss of `losses`.
        restarts, seed: number of additional random starts, and their random seed, with
            `tune_weights` alone. Default: 8 and 0.
        name: name of the language model's feature.

    Returns:
        - `format`; `lists` and `hypotheses`, their numbers; `changed`: the number of lists whose
          first hypothesis is not the decoder's.
        - `tokens` of all hypotheses that the language model predicts, and `unk_tokens` among them.
        - `weights`; None if each list had its `default_weights`.
        - With `losses`, their sums: `baseline` of the decoder's first hypotheses, `rescored`, and
            `oracle` of the best.
    """
    if tune_weights:
        fix = "give losses=WordErrors(references)."
        check_argument("losses", losses is not None, "given with `tune_weights`", losses, fix)
    else:
        for argument, value in {"restarts": restarts, "seed": seed}.items():
            wanted = "left out without `tune_weights`"
            check_argument(argument, value is None, wanted, value, "give tune_weights=True.")
    if not write:
        fix = "leave one of them out."
        check_argument("output", output is None, "left out with write=False", output, fix)
    if isinstance(score, LanguageModel):
        score = functools.partial(score_hypotheses, score)
    pairs: Iterable[tuple[NBestList, np.ndarray]]
    pairs = add_losses(add_scores(nbest, score, name), losses)
    if tune_weights:
        pairs = list(pairs)
        weights = tune_pairs(
            pairs,
            weights,
            name=name,
            restarts=RESTARTS if restarts is None else restarts,
            seed=seed or 0,
        )
    weighted = WeightedFeatures(weights, name)
    figures = _Figures(name)
    held: list[NBestList] = []
    with contextlib.ExitStack() as stack:
        write_list = None
        if write:
            writer = open_nbest_writer(output, nbest.format, nbest.header)
            write_list = stack.enter_context(writer)
        for one, loss in pairs:
            order = weighted.rank(one)
            figures.add(one, loss, order)
            if write_list is None:
                continue
            # a weight without a feature is refused before standard output has wrong scores
            held.append(one.reorder(order))
            if weighted.are_all_known or len(held) == _MOST_HELD:
                for ranked in held:
                    write_list(ranked)
                held.clear()
        # within the block: the file appears only if each weight has a feature
        weighted.check()
    result = {
        "format": nbest.format,
        "lists": figures.lists,
        "hypotheses": figures.hypotheses,
        "changed": figures.changed,
        "tokens": figures.tokens,
        "unk_tokens": figures.unk_tokens,
        "weights": dict(weights) if weights else None,
    }
    if losses:
        result["baseline"] = figures.baseline
        result["oracle"] = figures.oracle
        result["rescored"] = figures.rescored
    return result


@dataclasses.dataclass
class _Figures:
    """What `rescore_file` counts, list by list."""

    name: str
    lists: int = 0
    hypotheses: int = 0
    changed: int = 0
    baseline: float = 0.0
    oracle: float = 0.0
    rescored: float = 0.0
    tokens: int = 0
    unk_tokens: int = 0

    def add(self, nbest: NBestList, losses: np.ndarray, order: np.ndarray) -> None:
        """Add a list, with the losses of its hypotheses and their new order."""
        best = int(order[0])
        _, tokens, unk_tokens = name_features(self.name)
        total = find_total(nbest.features, self.name)
        # without a total the decoder's best hypothesis is its first
        decoder_best = 0 if total is None else int(np.argmax(nbest.features[total]))
        self.lists += 1
        self.hypotheses += len(nbest)
        self.changed += nbest.texts[best] != nbest.texts[decoder_best]
        self.baseline += float(losses[decoder_best])
        self.oracle += float(losses.min())
        self.rescored += float(losses[best])
        self.tokens += int(nbest.features[tokens].sum())
        self.unk_tokens += int(nbest.features[unk_tokens].sum())
