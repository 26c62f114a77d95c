"""Rescore N-best lists in memory: add a language model's features, and sort the hypotheses by a
weighted sum of features.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from keras_nplm.data.unusual_text import warn_of_tokens
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.io.errors import InputError, check_argument
from keras_nplm.io.progress import open_progress
from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.scoring import MIN_LOG_PROB
from keras_nplm.rescoring.formats import DECODER_SCORE, FEATURE_NAME, name_total
from keras_nplm.rescoring.lists import NBestList

_CHARACTERS = 1 << 20  # of hypotheses that are scored together
_READ_AHEAD = 1000  # lists, one of which must have the feature of each weight


def rescore(
    language_model: LanguageModel,
    lists: Iterable[NBestList],
    weights: Mapping[str, float] | None = None,
    *,
    name: str = FEATURE_NAME,
) -> Iterator[NBestList]:
    """Rescore N-best lists: add a language model's features and sort the hypotheses by the weighted
    sum of features, sum_k w_k f_k, the greatest first.

    The feature `name` is ln P(hypothesis), at least -228 per token. `name_words` is the number
    of predicted tokens, and `name_unk` the number of out-of-vocabulary words; these two are
    written to files only if they have a weight. A feature that a list lacks is 0. The default of
    the weights, also of `{}`, is 1 for `"score"`, or the total of an earlier rescoring (without a
    total for each feature of a list), and 1 for `name`; `keras_nplm.tune` finds better ones.
    Weights must be of features of the first 1,000 lists, which are read before one is scored.
    """
    for nbest in add_scores(language_model, check_weights(lists, weights, name), name):
        yield nbest.sort(sum_features(nbest, weights, name))


def name_features(name: str) -> tuple[str, str, str]:
    """Return the names of the features: ln P, the number of tokens, and that of unknown words."""
    is_word = name.split() == [name] and not set("=:|/") & set(name) and name != DECODER_SCORE
    wanted = f"one word without = : | or /, and not {DECODER_SCORE}, the decoder's total"
    check_argument("name", is_word, wanted, repr(name), f"give a word such as {FEATURE_NAME}.")
    return name, f"{name}_words", f"{name}_unk"


def add_scores(
    language_model: LanguageModel, lists: Iterable[NBestList], name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield N-best lists, scored in batches, with the features of a language model; see `rescore`.

    Each hypothesis is a text of its own, and its score is finite.
    """
    names = name_features(name)
    watch = warn_of_tokens(language_model.tokenizer, is_scored=True)
    progress = open_progress("Scoring")
    for batch in batch_by_size(lists, _CHARACTERS, lambda nbest: sum(map(len, nbest.texts))):
        texts = watch(text for nbest in batch for text in nbest.texts)
        scores = language_model.score(texts, min_log_prob=MIN_LOG_PROB, alone=True)
        for nbest in batch:
            rows = [*map(dataclasses.astuple, itertools.islice(scores, len(nbest)))]
            columns = np.array(rows, np.float64).reshape(-1, len(names)).T
            progress.update(int(columns[1].sum()))
            yield nbest.with_features(dict(zip(names, columns, strict=True)))
    progress.close()


def default_weights(features: Collection[str], name: str = FEATURE_NAME) -> dict[str, float]:
    """Return the weight 1 for the language model and for `find_total`, or for all features of the
    decoder.
    """
    own = name_features(name)
    total = find_total(features, name)
    before = [feature for feature in features if feature not in own]
    return dict.fromkeys([*(before if total is None else [total]), name], 1.0)


def find_total(features: Collection[str], name: str = FEATURE_NAME) -> str | None:
    """Return the last total that lists had before the language model: the decoder's `score`, or
    `NAME_total` beside a feature NAME, of an earlier rescoring. None: they had no total.
    """
    totals = {DECODER_SCORE, *map(name_total, features)} - {*name_features(name)}
    return next((feature for feature in reversed([*features]) if feature in totals), None)


def check_weights(
    lists: Iterable[NBestList], weights: Mapping[str, float] | None, name: str = FEATURE_NAME
) -> Iterator[NBestList]:
    """Yield all lists, if each weight is of the language model, or has a feature in one of the
    first 1,000.
    """
    lists = iter(lists)
    first = [*itertools.islice(lists, _READ_AHEAD)] if weights else []
    known = dict.fromkeys(itertools.chain.from_iterable(nbest.features for nbest in first))
    missing = {*(weights or ())} - {*known, *name_features(name)}
    if missing and first:
        raise InputError(
            f"The N-best lists have no feature {min(missing)!r} for its weight. "
            f"Received: {', '.join([*known, *name_features(name)])}. "
            "Fix: give weights of these features only."
        )
    yield from itertools.chain(first, lists)


def sum_features(
    nbest: NBestList, weights: Mapping[str, float] | None, name: str = FEATURE_NAME
) -> np.ndarray:
    """Return the weighted sum of the features of each hypothesis, float64 [H]."""
    totals = np.zeros(len(nbest))
    with np.errstate(over="ignore", invalid="ignore"):
        for feature, weight in (weights or default_weights(nbest.features, name)).items():
            totals += weight * nbest.features.get(feature, 0.0)
    if not np.isfinite(totals).all():
        raise InputError(
            f"The weighted sums of list {nbest.name} are not finite. Fix: give finite weights, "
            "or smaller ones."
        )
    return totals
