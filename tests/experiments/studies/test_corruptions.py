"""Wrong versions of sentences have one error of the kind that is named."""

import numpy as np
from rapidfuzz.distance import Levenshtein

from keras_nplm.experiments.studies.corruptions import (
    FUNCTION_WORDS,
    KINDS,
    Corruptions,
    find_similar_words,
    list_homophones,
)

WORDS = "the a of to their there cat cut cart dog saw see sea two too He Their".split()


def test_wrong_versions_have_one_error_of_their_kind():
    corruptions, random = Corruptions(WORDS), np.random.default_rng(0)
    sentence = "He saw the cat of their dog".split()
    drawn = [version for _ in range(20) for version in corruptions.sample(sentence, random, each=3)]
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
            assert new in list_homophones()[old] if kind == "homophone" else letters == 1
        else:
            longer, shorter = (wrong, sentence) if kind == "insertion" else (sentence, wrong)
            assert Levenshtein.distance(wrong, sentence) == 1 and len(longer) == len(shorter) + 1
            assert FUNCTION_WORDS & {*longer}
    once = corruptions.sample(sentence, random, each=2)
    assert len({tuple(wrong) for _, wrong in once}) == len(once)
    assert max([kind for kind, _ in once].count(kind) for kind in KINDS) == 2


def test_similar_words_are_one_letter_away():
    words = ["cat", "cut", "cart", "car", "art", "carts", "dog", "Cat", "at"]
    found = find_similar_words(words)
    assert set(found) == {word for word in words if len(word) > 2 and word.islower()}
    for word, others in found.items():
        expected = [other for other in found if Levenshtein.distance(word, other) == 1]
        assert others == sorted(expected)
