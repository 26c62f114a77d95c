"""The study of rescoring: wrong versions are wrong in the way that they say, and accuracy is counted by hand."""

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.experiments.studies import rescoring as study
from keras_nplm.experiments.studies.corruptions import (
    FUNCTION_WORDS,
    KINDS,
    Corruptions,
    homophones,
    similar_words,
)
from keras_nplm.language_model.rescoring import NBestList

WORDS = "the a of to their there cat cut cart dog saw see sea two too He Their".split()


def test_wrong_versions_have_one_error_of_their_kind():
    corruptions, random = Corruptions(WORDS), np.random.default_rng(0)
    sentence = "He saw the cat of their dog".split()
    drawn = [version for _ in range(20) for version in corruptions.of(sentence, random, each=3)]
    assert {kind for kind, _ in drawn} == {*KINDS}
    for kind, wrong in drawn:
        assert wrong != sentence and {*wrong} <= {*WORDS}
        changed = [(old, new) for old, new in zip(sentence, wrong, strict=False) if old != new]
        if kind == "swap":
            assert len(changed) == 2 and changed[0] == changed[1][::-1] and sorted(wrong) == sorted(sentence)
        elif kind in ("homophone", "substitution"):
            ((old, new),) = changed
            letters = Levenshtein.distance(old, new)
            assert len(wrong) == len(sentence)
            assert new in homophones()[old] if kind == "homophone" else letters == 1
        else:
            longer, shorter = (wrong, sentence) if kind == "insertion" else (sentence, wrong)
            assert Levenshtein.distance(wrong, sentence) == 1 and len(longer) == len(shorter) + 1
            assert FUNCTION_WORDS & {*longer}
    once = corruptions.of(sentence, random, each=2)
    assert len({tuple(wrong) for _, wrong in once}) == len(once)
    assert max([kind for kind, _ in once].count(kind) for kind in KINDS) == 2


def test_similar_words_are_those_one_letter_away():
    words = ["cat", "cut", "cart", "car", "art", "carts", "dog", "Cat", "at"]
    found = similar_words(words)
    assert set(found) == {word for word in words if len(word) > 2 and word.islower()}
    for word, others in found.items():
        expected = [other for other in found if Levenshtein.distance(word, other) == 1]
        assert others == sorted(expected)


def test_accuracy_is_that_of_counting():
    kinds = {"0": np.array(["swap", "", "deletion"]), "1": np.array(["", "swap", "swap"])}
    lists = [
        NBestList(
            "0", ["b a c", "a b c", "a c"], {"nplm": np.array([-4.0, -3, -2]), "nplm_words": np.array([3.0, 3, 2])}
        ),
        NBestList("1", ["a b", "b a", "b a"], {"nplm": np.array([-3.0, -3, -4]), "nplm_words": np.array([2.0, 2, 2])}),
    ]
    plain = study._accuracy(lists, {"nplm": 1.0}, kinds)
    assert (plain["all"], plain["swap"], plain["deletion"]) == (0, 0.5, 0)  # an equal is not behind
    assert plain["word_error_rate"] == 1 / 5 and "homophone" not in plain
    weighted = study._accuracy(lists, {"nplm": 1.0, "nplm_words": 2.0}, kinds)
    assert (weighted["all"], weighted["deletion"], weighted["word_error_rate"]) == (0.5, 1, 0)
