"""Reserved words in a text, `<pad>`, `<s>` and `</s>`: unknown words where a text is scored or
continued.
"""

import numpy as np
import pytest

from keras_nplm import (
    InputError,
    KenlmModel,
    LanguageModel,
    NBestList,
    Vocabulary,
    encode_sentences,
    kneser_ney,
    rescore,
)
from keras_nplm.data.shards import encode_lines
from keras_nplm.language_model.ctc import CtcLanguageModel
from keras_nplm.language_model.new_words import count_new_words

LINES = ["the cat sat", "the dog sat on the mat", "a zzz sat"] * 3
VOCABULARY = Vocabulary.build(LINES, tokenizer="whitespace", max_size=6)
RESERVED = ["<pad>", "<s>", "</s>"]


def _build(order: int, boundary: str = "sentence") -> LanguageModel:
    ids = encode_lines(LINES, VOCABULARY, "whitespace", boundary)
    return LanguageModel(
        kneser_ney(ids, len(VOCABULARY), order, boundary), VOCABULARY, "whitespace"
    )


LANGUAGE_MODEL = _build(3)


def _score(text):
    return list(LANGUAGE_MODEL.score([text, "the cat"]))


def _score_tokens(text):
    [scores] = LANGUAGE_MODEL.score_tokens([text])
    return [(score.log_prob, score.order, score.is_unknown) for score in scores]


def _score_by_words(text):
    scorer = LANGUAGE_MODEL.scorer()
    state = scorer.begin()
    result = []
    for word in text.split():
        log_prob, state = scorer.score(state, word)
        result += [log_prob, word in scorer]
    return result, state


def _rescore(text):
    [nbest] = rescore(
        LANGUAGE_MODEL, [NBestList("0", [text, "the cat"])], {"nplm": 1, "nplm_unk": 1}
    )
    return {name: values.tolist() for name, values in nbest.features.items()}


def _score_in_beam_search(text):
    model = CtcLanguageModel(LANGUAGE_MODEL)
    return model.score(model.get_start_state(), text.split()[-1])


def _list_next_words(text):
    return LANGUAGE_MODEL.next_words(text, 3)


def _complete(text):
    return LANGUAGE_MODEL.complete_prefix(f"{text} ", 3)


def _generate(text):
    return LANGUAGE_MODEL.generate(text, 5, seed=1).removeprefix(text)


USES = [
    _score,
    _score_tokens,
    _score_by_words,
    _rescore,
    _score_in_beam_search,
    _list_next_words,
    _complete,
    _generate,
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("word", RESERVED)
@pytest.mark.parametrize("text", ["{}", "the {}", "{} sat", "the {0} {0} cat {0}"])
def test_reserved_words_are_unknown_words(use, word, text):
    assert use(text.format(word)) == use(text.format("zzz"))


def test_padding_is_an_unknown_word_in_every_text():
    text = ["the <pad> sat", "a cat"]
    found = LANGUAGE_MODEL.evaluate(text)
    expected = LANGUAGE_MODEL.evaluate(["the zzz sat", "a cat"])
    for name in ("perplexity", "tokens"):
        assert found[name] == expected[name]
    assert np.array_equal(
        encode_sentences([["the", "<pad>"]], VOCABULARY),
        encode_sentences([["the", "zzz"]], VOCABULARY),
    )
    assert Vocabulary.build([["a", "<pad>"], ["<pad>", "b"]]).words[4:] == ["a", "b"]
    assert count_new_words(LANGUAGE_MODEL, ["the <pad> new new"]) == {"new": 2}


@pytest.mark.parametrize("word", ["<s>", "</s>"])
def test_texts_with_markers_are_refused_where_their_sum_counts(word):
    with pytest.raises(InputError, match=f"reserved token {word}"):
        LANGUAGE_MODEL.evaluate([f"the {word} sat"])
    with pytest.raises(InputError, match=f"reserved token {word}"):
        Vocabulary.build([["a", word]])


def test_kenlm_interface_of_a_directory_has_markers_and_no_padding(tmp_path):
    LANGUAGE_MODEL.save(tmp_path / "model")
    model = KenlmModel(tmp_path / "model")
    assert model.score("the <pad> sat") == model.score("the zzz sat")
    assert ["<pad>" in model, "<s>" in model, "</s>" in model] == [False, True, True]
