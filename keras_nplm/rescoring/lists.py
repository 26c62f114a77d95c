"""Rescore N-best lists in memory, or as they are read, with given weights."""

import functools
from collections.abc import Iterable, Iterator, Mapping

from keras_nplm.language_model.language_model import LanguageModel
from keras_nplm.language_model.scoring import MIN_LOG_PROB, SentenceScore
from keras_nplm.rescoring.features import FEATURE_NAME, add_scores
from keras_nplm.rescoring.nbest import NBestList
from keras_nplm.rescoring.ranking import rank_lists


def score_hypotheses(
    language_model: LanguageModel, texts: Iterable[str]
) -> Iterator[SentenceScore]:
    """Iterate over the scores of hypotheses, finite ones: each hypothesis is a text of its own."""
    return language_model.score(texts, min_log_prob=MIN_LOG_PROB, alone=True)


def rescore(
    language_model: LanguageModel,
    lists: Iterable[NBestList],
    weights: Mapping[str, float] | None = None,
    *,
    name: str = FEATURE_NAME,
) -> Iterator[NBestList]:
    """Rescore N-best lists: add a language model's features and sort the hypotheses by the weighted
    sum of features.

    The feature `name` is ln P(hypothesis), at least -228 per token. `name_words` is the number
    of predicted tokens, and `name_unk` the number of out-of-vocabulary words; these two are
    written to files only if they have a weight. The default of the weights, also of `{}`, is 1 for
    `"score"`, or the total of an earlier rescoring (without a total for each feature of a list),
    and 1 for `name`; `keras_nplm.tune` finds better ones.
    """
    score = functools.partial(score_hypotheses, language_model)
    return rank_lists(add_scores(lists, score, name), weights, name)
