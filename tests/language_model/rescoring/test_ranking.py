"""Ranking of N-best lists by weighted features, and the features of a language model."""

import numpy as np
import pytest

from keras_nplm import InputError, LanguageModel, Uniform, Vocabulary
from keras_nplm.language_model.rescoring.features import add_scores
from keras_nplm.language_model.rescoring.losses import WordErrors
from keras_nplm.language_model.rescoring.nbest import NBestList
from keras_nplm.language_model.rescoring.ranking import rank_lists
from keras_nplm.language_model.rescoring.tuning import tune


def test_lists_are_ranked_by_weighted_features():
    features = {"score": np.array([-1.0, -2, -2]), "nplm": np.array([-9.0, -4, -4])}
    (nbest,) = rank_lists([NBestList("0", ["a", "b", "c"], features, new_features=("nplm",))], {"score": 2, "nplm": 1})
    assert (nbest.texts, nbest.totals.tolist()) == (["b", "c", "a"], [-8, -8, -11])  # equals as they were
    (nbest,) = rank_lists([NBestList("0", ["a", "b", "c"], features)])
    assert nbest.totals.tolist() == [-6, -6, -10]
    with pytest.raises(InputError, match="no feature 'lm' for its weight. Received: score, nplm"):
        list(rank_lists([NBestList("0", ["a", "b", "c"], features)], {"lm": 1, "score": 1}))
    with pytest.raises(InputError, match="The weight of nplm must be a finite number"):
        list(rank_lists([], {"nplm": np.nan}))
    with pytest.raises(InputError, match="1 N-best list or more"):
        tune([], WordErrors({}))
    with pytest.raises(InputError, match="List 0 already has a feature score"):
        NBestList("0", ["a"], {"score": np.zeros(1)}).with_features({"score": np.zeros(1)})


def test_a_hypothesis_with_a_reserved_token_is_named():
    model = LanguageModel(Uniform(8, "stream"), Vocabulary([*"abcd"]), "whitespace", "stream")
    with pytest.raises(InputError, match="List 1: The text holds the reserved token </s>"):
        list(add_scores([NBestList("0", ["a"]), NBestList("1", ["b </s>"])], model.score))
