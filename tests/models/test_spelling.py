"""The spelling model against a plain Kneser-Ney oracle: its sums, its escapes and its file."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Vocabulary
from keras_nplm.models import spelling as module
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.spelling import SPELLING_FILE, SpellingModel, load_spelling

CODE_POINTS = 0x110000 - 0x800
WORDS = {"ab": 3, "abba": 1, "b": 2}


def test_log_prob_is_that_of_a_character_model():
    ids = [4, 5, 3] * 3 + [4, 5, 5, 4, 3] + [5, 3] * 2
    model = kneser_ney(np.array(ids), 6, 6)
    character = {"a": 4, "b": 5}
    for word in ("ab", "bbba", "", "aXb", "é"):
        history = [2] * 5
        expected = 0.0
        for target in [*(character.get(letter, 1) for letter in word), 3]:
            expected += float(model.next_log_probs(np.array([history]))[0, target])
            expected -= math.log(CODE_POINTS - 2) * (target == 1)
            history = [*history[1:], target]
        assert SpellingModel(WORDS).log_prob([word])[0] == pytest.approx(expected, abs=1e-5)


@settings(max_examples=15)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=5),
    st.data(),
)
def test_every_string_has_a_probability(words, data):
    model = SpellingModel(dict.fromkeys(words, 1))
    asked = [*words, data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=9))]
    log_prob = model.log_prob(asked)
    assert np.isfinite(log_prob).all() and (log_prob < 0).all()
    np.testing.assert_allclose(log_prob, [model.log_prob([word])[0] for word in asked], rtol=1e-6)
    counts = {word: place + 1 for place, word in enumerate(dict.fromkeys(asked))}
    expected = sum(count * model.log_prob([word])[0] for word, count in counts.items())
    assert model.sum_log_prob(counts) == pytest.approx(expected, rel=1e-6)


def test_training_words_are_unknown_words_then_rare_words(monkeypatch):
    vocabulary = Vocabulary(["the", "cat", "sat"])
    unknown = [{"dog": 1, "cow": 2}, {"dog": 2, "ant": 1, "sat": 1}]
    counts = {"dog": 3, "cow": 2, "ant": 1, "sat": 1, "cat": 1, "the": 1}
    for most in (6, 5, 4, 2):
        monkeypatch.setattr(module, "MAX_WORDS", most)
        found = [*SpellingModel.from_vocabulary(vocabulary, unknown).counts.items()]
        assert found[:4] == [*counts.items()][: min(most, 4)]
    many = [{f"w{i}": i} for i in range(1, 200)]
    assert SpellingModel.from_vocabulary(vocabulary, many).counts == {"w199": 199, "w198": 198}


def test_a_saved_model_gives_the_same_probabilities(tmp_path):
    assert load_spelling(tmp_path) is None
    model = SpellingModel({"ab": 3, "猫": 1, "b\u0301": 2})
    model.save(tmp_path / SPELLING_FILE)
    words = ["ab", "猫猫", "x"]
    np.testing.assert_array_equal(load_spelling(tmp_path).log_prob(words), model.log_prob(words))
