"""The language model of pyctcdecode: weighted scores of the text, and the decodes of pyctcdecode's
own over KenLM.
"""

import math

import numpy as np
import pytest

from keras_nplm import CtcLanguageModel, Vocabulary, write_arpa
from tests.tokenizers import build_model

LABELS = ["", " ", "a", "b"]
OFFSET = -0.7  # log10, of an unknown word
LN10 = math.log(10)
WORDS = ["a", "b", "ab", "abba", "ba"]


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
def test_scores_are_weighted_and_the_last_one_has_the_end(boundary):
    """For other sums see `test_text_answers.py`."""
    model = build_model("words", ["ab a b", "ba ab"] * 3, 3, boundary, Vocabulary(WORDS[:4]))
    scores = CtcLanguageModel(model, alpha=0.5, beta=1.5, unk_score_offset=OFFSET)
    first, state = scores.score(scores.get_start_state(), "ab")
    last, _ = scores.score(state, "ba", is_last_word=True)
    [whole] = model.score(["ab ba"])
    assert first + last == pytest.approx(0.5 * (whole.log_prob + OFFSET * LN10) + 2 * 1.5, abs=1e-5)
    # an empty last word, of a text that ends in a space, has only the end
    end = model.scorer().end(state)
    assert scores.score(state, "", is_last_word=True) == (pytest.approx(0.5 * end), state)
    assert scores.score(state, "") == (0.0, state)
    scores.reset_params(score_boundary=False)
    assert scores.score(state, "", is_last_word=True) == (0.0, state)


def test_partial_words_are_beginnings_of_words():
    model = build_model("words+lower", ["ab a b"], vocabulary=Vocabulary(WORDS[:4]))
    scores = CtcLanguageModel(model, unk_score_offset=-10)
    parts = {"ab": 0, "AB": 0, "abb": 0, "ba": -10, "bababababababa": -10 * 14 / 6}
    # a text that ends in a space has no partial word
    parts[""] = 0
    assert {part: scores.score_partial_token(part) for part in parts} == pytest.approx(parts)


def list_answers(language_model, decoder) -> tuple[list[float], list[str]]:
    """Return the numbers and texts of a language model of pyctcdecode or of this package, and of a
    decoder with it.
    """
    parts = ("a", "ab", "abb", "abbab", "x", "bababab", "bbbbbbbbbbbb")
    numbers = [language_model.order, *map(language_model.score_partial_token, parts)]
    rng = np.random.default_rng(1)
    for _ in range(30):
        state = language_model.get_start_state()
        for word in rng.choice([*WORDS, "bb", "unknown"], 5).tolist():
            numbers.append(language_model.score(state, word, True)[0])
            score, state = language_model.score(state, word)
            numbers.append(score)
    texts = []
    for hotwords in (None, ["abb", "bbb"]):
        logits = rng.normal(0, 2, (12, len(LABELS)))
        # the text ends in a letter: after a space, pyctcdecode adds an unknown word
        logits[-1, :2] = -100
        for text, *_, ctc, total in decoder.decode_beams(logits, beam_width=30, hotwords=hotwords):
            texts.append(text)
            numbers += [ctc, total]
    return numbers, texts


@pytest.mark.packages
@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"alpha": 1.3, "beta": -0.4, "unk_score_offset": -2.5}, id="tuned"),
        pytest.param({"lm_score_boundary": False}, id="no boundary"),
        pytest.param({"alpha": 0.0, "unk_score_offset": 0.0}, id="zeros"),
    ],
)
def test_scores_and_decodes_are_those_of_pyctcdecode(tmp_path, params):
    """Of a back-off model of words, and of pyctcdecode's language model of it, over KenLM."""
    real = pytest.importorskip("kenlm", reason="kenlm is not installed")
    pyctcdecode = pytest.importorskip("pyctcdecode", reason="pyctcdecode is not installed")
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(60)]
    language_model = build_model("whitespace", lines, vocabulary=Vocabulary(WORDS))
    path = str(tmp_path / "model.arpa")
    write_arpa(path, language_model.model, language_model.vocabulary)
    answers = []
    for each in (
        CtcLanguageModel(language_model),
        pyctcdecode.LanguageModel(real.Model(path), WORDS),
    ):
        alphabet = pyctcdecode.Alphabet.build_alphabet(LABELS)
        decoder = pyctcdecode.BeamSearchDecoderCTC(alphabet, each)
        decoder.reset_params(**params)
        answers.append(list_answers(each, decoder))
    (found, texts), (wanted, wanted_texts) = answers
    assert found == pytest.approx(wanted, abs=2e-3)
    assert texts == wanted_texts and len({*texts}) > 10
