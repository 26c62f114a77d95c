"""Rescoring of lists in memory: weights and totals; for features see `test_formats.py`."""

import itertools

import numpy as np
import pytest

from keras_nplm import NBestList, rescore
from keras_nplm.rescoring.ranking import default_weights


@pytest.mark.parametrize(
    "weights, totals", [({"score": 2, "am": 1}, [-8, -8, -11]), ({"score": -1}, [2, 2, 1])]
)
def test_equal_hypotheses_stay_in_their_order(build_ngram_model, weights, totals):
    features = {"score": [-1, -2, -2], "am": np.array([-9.0, -4, -4])}
    lists = [NBestList("0", ["a", "b", "c"], features)]
    [nbest] = rescore(build_ngram_model("sentence"), lists, weights)
    assert (nbest.texts, nbest.totals.tolist()) == (["b", "c", "a"], totals)


@pytest.mark.parametrize(
    "features, total",
    [
        pytest.param("am lm", None, id="no total"),
        pytest.param("score am", "score", id="the decoder's score"),
        pytest.param("am nplm nplm_total", "nplm_total", id="an earlier rescoring"),
        pytest.param("score nplm nplm_total b b_total", "b_total", id="two earlier rescorings"),
        pytest.param("am am_total nplm_before score", "score", id="a later score, as of Moses"),
        pytest.param("run_total", None, id="a name that only ends so"),
    ],
)
def test_the_last_total_stands_for_the_features_before(features, total):
    before = features.split()
    expected = before if total is None else [total]
    assert [*default_weights([*before, "new", "new_words", "new_unk"], "new")] == [*expected, "new"]


def test_lists_are_read_lazily(build_ngram_model):
    read = itertools.count()
    lists = (NBestList(str(i), ["the cat " * 1000] * 10) for i in read)  # endless
    ranked = rescore(build_ngram_model("sentence"), lists)
    assert [nbest.name for nbest in itertools.islice(ranked, 3)] == ["0", "1", "2"]
    assert next(read) < 20


def test_what_cannot_be_ranked_is_refused(build_ngram_model, messages):
    model = build_ngram_model("text")
    for features, options in (
        ({"score": [0, np.nan]}, {}),
        ({"score": [[-1.0], [-2.0]]}, {}),
        ({"score": [1, 1e10]}, {"weights": {"score": 1e308}}),
        ({"score": [1, 2]}, {"weights": {"nplm": np.nan}}),
        ({"score": [1, 2]}, {"weights": {"lm": 1}}),
        ({"nplm": [1, 2]}, {}),
        # of a list without a score, as Kaldi's, nothing else would tell
        ({}, {"name": "score"}),
        ({}, {"name": "a b"}),
    ):
        messages.refuse(
            lambda features=features, options=options: list(
                rescore(model, [NBestList("7", ["a", "b"], features)], **options)
            )
        )


def test_a_weight_counts_if_a_later_list_has_its_feature(build_ngram_model):
    lists = [NBestList("0", ["a"]), NBestList("1", ["a", "b"], {"sparse": [0, 9]})]
    ranked = list(rescore(build_ngram_model("text"), lists, {"nplm": 1, "sparse": 1}))
    assert [nbest.texts[0] for nbest in ranked] == ["a", "b"]
