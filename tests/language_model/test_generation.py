"""Generated text: reproducible by seed, distributed as P(w | context), a line per sentence."""

import numpy as np
import pytest

from keras_nplm import InputError
from tests.language_models import Table
from tests.tokenizers import PARTS_OF_WORDS, build_model


def test_generation_is_seeded_and_greedy_at_temperature_0(build_ngram_model):
    language_model = build_ngram_model("stream")
    text, again, other = (language_model.generate("the cat", 20, seed=seed) for seed in (1, 1, 2))
    assert text == again != other
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


@pytest.mark.parametrize(
    "boundary, text", [("sentence", "the\nthe\nthe"), ("text", "the\ncat\ncat")]
)
def test_only_a_text_goes_on_after_a_sentence(build_ngram_model, boundary, text):
    rows = np.tile(np.eye(9)[3], (9, 1))
    rows[[2, 3]] = np.eye(9)[[4, 5]]  # after <s> and </s>
    language_model = build_ngram_model(boundary).replace_model(Table(rows, boundary))
    assert language_model.generate("", 3).strip() == text


def test_a_sentence_end_begins_a_line_and_no_word_is_an_error(build_ngram_model):
    def generate(weights, prompt, number):
        model = Table(np.tile(weights, (9, 1)), "sentence")
        return build_ngram_model("sentence").replace_model(model).generate(prompt, number)

    text = generate([0, 0, 0, 0.5, *[0.1] * 5], "", 30)
    assert "\n" in text and len(text.split()) == 30 and "</s>" not in text
    assert not generate(np.eye(9)[3], "", 3).split()
    with pytest.raises(InputError, match="Every word has probability 0"):
        generate(np.zeros(9), "the", 3)


@pytest.mark.parametrize("tokenizer", PARTS_OF_WORDS)
def test_text_after_a_space_begins_a_word_and_never_doubles_it(tokenizer):
    model = build_model(tokenizer, ["red cats", "red dogs", "redder cats", "redder dogs"] * 60, 5)
    assert model.generate("red ", 2, temperature=0).startswith(("ca", "do"))
    texts = [model.generate("red ", 1, seed=seed, temperature=5.0) for seed in range(60)]
    assert not any(text.startswith((" ", "\u2581")) for text in texts)
    assert len({*texts}) > 5
    if tokenizer == "sentencepiece":
        # without the space a piece of the same word may follow
        texts = [model.generate("red", 1, seed=seed, temperature=5.0) for seed in range(60)]
        assert not all(text.startswith((" ", "\n")) for text in texts)
