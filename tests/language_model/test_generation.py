"""Generated text: reproducible by seed, distributed as P(w | context), a line per sentence."""

import numpy as np
import pytest

from keras_nplm import InputError, LanguageModel
from keras_nplm.models.base import NextWordModel


def test_generation_is_seeded_and_greedy_at_temperature_0(build_ngram_model):
    language_model = build_ngram_model("stream")
    text = language_model.generate("the cat", 20, seed=1)
    assert (
        text
        == language_model.generate("the cat", 20, seed=1)
        != language_model.generate("the cat", 20, seed=2)
    )
    assert len(text.split()) == 20 and set(text.split()) <= set(language_model.vocabulary.words[4:])
    greedy = language_model.generate("the cat", 3, temperature=0)
    assert greedy.startswith(language_model.next_words("the cat", top_k=1)[0][0])
    assert language_model.generate("the cat", 3, top_k=1, seed=5) == greedy


def test_words_follow_the_distribution_at_a_temperature(build_ngram_model):
    language_model = build_ngram_model("stream")
    words = [language_model.generate("the", 1, seed=seed, temperature=0.5) for seed in range(400)]
    weights = {word: p**2 for word, p in language_model.next_words("the", top_k=5)}
    for word, weight in weights.items():
        expected = weight / sum(weights.values())
        assert words.count(word) / 400 == pytest.approx(expected, abs=4 * np.sqrt(expected / 400))


class _Fixed(NextWordModel):
    """The same distribution in every context."""

    order = 3
    boundary = "sentence"
    vocabulary_size = 9

    def __init__(self, weights):
        with np.errstate(divide="ignore"):
            self._log_probs = np.log(weights)

    def _next_log_probs(self, context_ids):
        return np.tile(self._log_probs, (len(context_ids), 1))


@pytest.mark.parametrize(
    "boundary, text", [("sentence", "the\nthe\nthe"), ("text", "the\ncat\ncat")]
)
def test_only_a_text_goes_on_after_a_sentence(build_ngram_model, monkeypatch, boundary, text):
    after = {2: 4, 3: 5}  # after <s> and </s>; </s> follows each word
    language_model = build_ngram_model(boundary)

    def rows(_, contexts):
        is_next = np.arange(9) == after.get(contexts[0, -1], 3)
        return np.where(is_next, 0, -np.inf)[None]

    monkeypatch.setattr(type(language_model.model), "next_log_probs", rows)
    assert language_model.generate("", 3).strip() == text


def test_a_sentence_end_begins_a_line_and_no_word_is_an_error(build_ngram_model):
    vocabulary = build_ngram_model("sentence").vocabulary
    text = LanguageModel(_Fixed([0, 0, 0, 0.5, *[0.1] * 5]), vocabulary, "words").generate("", 30)
    assert "\n" in text and len(text.split()) == 30 and "</s>" not in text
    assert (
        LanguageModel(_Fixed([0, 0, 0, 1, *[0] * 5]), vocabulary, "words").generate("", 3).split()
        == []
    )
    with pytest.raises(InputError, match="Every word has probability 0"):
        LanguageModel(_Fixed(np.zeros(9)), vocabulary, "words").generate("the", 3)
