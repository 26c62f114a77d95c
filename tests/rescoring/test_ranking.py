"""Ranking of N-best lists by weighted features; losses against the plain edit distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError
from keras_nplm.rescoring.losses import WordErrors, read_references
from keras_nplm.rescoring.minimum_error_rate import tune
from keras_nplm.rescoring.nbest import NBestList
from keras_nplm.rescoring.ranking import default_weights, rank_lists

FEATURES = {"score": np.array([-1.0, -2, -2]), "nplm": np.array([-9.0, -4, -4])}
LISTS_WITH_SCORES = [NBestList("0", [*"abc"], FEATURES)]
LISTS = [NBestList("0", ["the cat", "the old cat", ""]), NBestList("2", ["a"])]


@pytest.mark.parametrize(
    "weights, totals",
    [
        pytest.param({"score": 2, "nplm": 1}, [-8, -8, -11], id="given weights"),
        pytest.param(None, [-6, -6, -10], id="default weights"),
        pytest.param({}, [-6, -6, -10], id="no weights"),
    ],
)
def test_lists_are_ranked_by_weighted_features(weights, totals):
    (nbest,) = rank_lists(
        [NBestList("0", ["a", "b", "c"], FEATURES, new_features=("nplm",))], weights
    )
    assert (nbest.texts, nbest.totals.tolist()) == (["b", "c", "a"], totals)  # equals as they were


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


def _plain_distance(hypothesis, reference):
    row = list(range(len(hypothesis) + 1))
    for i, word in enumerate(reference, start=1):
        before = row
        row = [i]
        for j, other in enumerate(hypothesis, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (word != other)))
    return row[-1]


SENTENCES = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=7)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.lists(SENTENCES, max_size=6), SENTENCES)
def test_word_errors_are_the_edit_distance(hypotheses, reference):
    errors = WordErrors({"0": " ".join(reference)})
    (found,) = errors([NBestList("0", [" ".join(hypothesis) for hypothesis in hypotheses])])
    assert found.tolist() == [_plain_distance(hypothesis, reference) for hypothesis in hypotheses]
    assert errors.denominator == len(reference)


@pytest.mark.parametrize(
    "format, text, expected",
    [
        pytest.param(
            "moses", "it &apos;s\n\nb\n", {"0": "it 's", "1": "", "2": "b"}, id="moses, by number"
        ),
        pytest.param(
            "kaldi", "u1 the cat\nu2\n", {"u1": "the cat", "u2": ""}, id="kaldi, by utterance"
        ),
        pytest.param("tsv", "a b\tthe cat\n", {"a b": "the cat"}, id="tsv, by id"),
        pytest.param("tsv", "Utt\tref\na\tb\n", {"a": "b"}, id="tsv with a header"),
        pytest.param(
            "tsv", "utt\tthe text\na\tb\n", {"utt": "the text", "a": "b"}, id="tsv without header"
        ),
    ],
)
def test_references_are_read_in_each_format(tmp_path, format, text, expected):
    (tmp_path / "references").write_text(text)
    assert read_references(tmp_path / "references", format) == expected


def test_a_list_without_a_reference_is_refused():
    with pytest.raises(InputError, match="List 2 has no reference"):
        WordErrors({"0": "a"})(LISTS)


@pytest.mark.parametrize("lists", [[], [NBestList("0", [])]])
def test_tuning_without_hypotheses_is_refused(lists):
    with pytest.raises(InputError, match="1 N-best list or more"):
        tune(lists, WordErrors({"0": "a"}))


@pytest.mark.parametrize("place", [0, 1])
def test_tuning_skips_empty_lists(place):
    """A decoder may find nothing."""
    losses = WordErrors({"0": "b", "1": "a"})
    lists = list(LISTS_WITH_SCORES)
    lists.insert(place, NBestList("1", []))
    assert tune(lists, losses) == tune(LISTS_WITH_SCORES, losses)


@pytest.mark.parametrize("bad", [[0.0, np.nan, 1.0], [0.0, -np.inf, 1.0]])
def test_features_that_are_not_finite_are_refused(bad):
    lists = [NBestList("7", [*"abc"], {**FEATURES, "nplm": np.array(bad)})]
    with pytest.raises(InputError, match="`nplm` must be a finite number for each of the 3 .* 7"):
        tune(lists, WordErrors({"7": "b"}))


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param([0.0, 1.0], id="too few"),
        pytest.param([[0.0], [1.0], [2.0]], id="a column"),
        pytest.param([0.0, np.nan, 1.0], id="NaN"),
        pytest.param("abc", id="a text"),
    ],
)
def test_losses_other_than_a_number_for_each_hypothesis_are_refused(loss):
    def find_losses(lists):
        return [loss for _ in lists]

    with pytest.raises(InputError, match="`losses` must be a finite number for each of the 3 .* 0"):
        tune(LISTS_WITH_SCORES, find_losses)


def test_the_feature_that_is_not_finite_is_named():
    lists = [NBestList("7", [*"abc"], {**FEATURES, "nplm": np.array([0.0, np.nan, 1.0])})]
    with pytest.raises(
        InputError,
        match="The feature nplm of list 7 must be finite. Received: nan, of hypothesis 2",
    ):
        list(rank_lists(lists))


@pytest.mark.parametrize(
    "lists, weights, message",
    [
        pytest.param([], {"nplm": np.nan}, "The weight of nplm must be a finite number", id="NaN"),
        pytest.param(
            LISTS_WITH_SCORES,
            {"score": 1e308},
            "not finite. Fix: give smaller weights",
            id="a sum that overflows",
        ),
        pytest.param(
            LISTS_WITH_SCORES,
            {"lm": 1},
            "no feature 'lm' for its weight",
            id="a weight without a feature",
        ),
    ],
)
def test_invalid_weights_are_refused(lists, weights, message):
    with pytest.raises(InputError, match=message):
        list(rank_lists(lists, weights))
