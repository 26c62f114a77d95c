"""Reserved words in a text, `<pad>`, `<s>` and `</s>`: unknown words where a text is scored or
continued.
"""

import pytest

from keras_nplm import (
    CtcLanguageModel,
    InputError,
    NBestList,
    Vocabulary,
    rescore,
)
from keras_nplm.language_model.new_words import count_new_words
from tests.tokenizers import build_model

LINES = ["the cat sat", "the dog sat on the mat", "a zzz sat"] * 3
VOCABULARY = Vocabulary.build(LINES, tokenizer="whitespace", max_size=6)
LANGUAGE_MODEL = build_model("whitespace", LINES, vocabulary=VOCABULARY)


def _score(text):
    [tokens] = LANGUAGE_MODEL.score_tokens([text])
    figures = [(score.log_prob, score.order, score.is_unknown) for score in tokens]
    return figures, [*LANGUAGE_MODEL.score([text, "the cat"])]


def _score_by_words(text):
    scorer = LANGUAGE_MODEL.scorer()
    state = scorer.begin()
    result = []
    for word in text.split():
        log_prob, state = scorer.score(state, word)
        result += [log_prob, word in scorer]
    return result, state


def _rescore(text):
    [nbest] = rescore(LANGUAGE_MODEL, [NBestList("0", [text, "the cat"])], {"nplm_unk": 1})
    return {name: values.tolist() for name, values in nbest.features.items()}


def _score_in_beam_search(text):
    model = CtcLanguageModel(LANGUAGE_MODEL)
    return model.score(model.get_start_state(), text.split()[-1])


def _continue(text):
    generated = LANGUAGE_MODEL.generate(text, 5, seed=1).removeprefix(text)
    completed = LANGUAGE_MODEL.complete_prefix(f"{text} ", 3)
    return generated, completed, LANGUAGE_MODEL.next_words(text, 3)


@pytest.mark.parametrize(
    "use", [_score, _score_by_words, _rescore, _score_in_beam_search, _continue]
)
@pytest.mark.parametrize("word", ["<pad>", "<s>", "</s>"])
@pytest.mark.parametrize("text", ["{}", "the {}", "{} sat", "the {0} {0} cat {0}"])
def test_reserved_words_are_unknown_words(use, word, text):
    assert use(text.format(word)) == use(text.format("zzz"))


def test_padding_is_an_unknown_word_in_every_text():
    found, expected = (
        LANGUAGE_MODEL.evaluate([f"the {word} sat", "a cat"]) for word in ("<pad>", "zzz")
    )
    assert found["log_prob"] == expected["log_prob"]
    assert count_new_words(LANGUAGE_MODEL, ["the <pad> new new"]) == {"new": 2}


@pytest.mark.parametrize("word", ["<s>", "</s>"])
def test_texts_with_markers_are_refused_where_their_sum_counts(word):
    with pytest.raises(InputError, match=f"reserved token {word}"):
        LANGUAGE_MODEL.evaluate([f"the {word} sat"])
