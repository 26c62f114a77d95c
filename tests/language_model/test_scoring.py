"""Sentence scores: sums of log-probabilities over the tokens."""

import numpy as np
import pytest

from keras_nplm import InputError, LanguageModel, Vocabulary
from keras_nplm.language_model.new_words import count_new_words
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.spelling import SpellingModel
from tests.tokenizers import KINDS, build_model

LINES = ["the cat sat", "on", "", "", "the dog", "mat on", "sat", "the mat on the mat " * 40]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    "boundary, begin, end", [("stream", 0, []), ("sentence", 2, [3]), ("text", 2, [3])]
)
def test_scores_are_sums_over_the_tokens(build_ngram_model, boundary, begin, end, alone):
    """The lines of a text follow the lines before, up to a blank line."""
    language_model = build_ngram_model(boundary)
    context = [begin, begin]
    for line, score in zip(LINES, language_model.score(LINES, alone=alone), strict=True):
        ids = language_model.vocabulary.encode(line.split()).tolist()
        # a blank line is no sentence, but a hypothesis that nothing was said
        ids += end if ids or alone else []
        if boundary != "text" or alone or not line:
            context = [begin, begin]
        expected = 0.0
        for target in ids:
            expected += language_model.model.next_log_probs([context])[0, target]
            context = [context[1], target]
        found = (score.log_prob, score.tokens, score.unk_tokens)
        assert found == (pytest.approx(expected, rel=1e-5), len(ids), ids.count(1))


def test_lines_follow_those_of_the_batch_before(build_ngram_model):
    [_, *scores] = build_ngram_model("text").score(["the " + "x" * 1000] * 2200)
    assert len({score.log_prob for score in scores}) == 1


def test_a_long_text_is_evaluated_while_it_is_read(build_ngram_model):
    plain = build_ngram_model("sentence")
    # unknown words are spelled in chunks
    spelling = SpellingModel({"dog": 1, "dogs": 1})
    language_model = LanguageModel(plain.model, plain.vocabulary, "words", spelling=spelling)
    read = []
    seen = []

    class Recording(NextWordModel):
        order = language_model.model.order
        vocabulary_size = language_model.model.vocabulary_size
        boundary = "sentence"

        def _log_prob(self, context_ids, target_ids):
            seen.append(len(read))
            return language_model.model.log_prob(context_ids, target_ids)

    lines = (read.append(number) or "the dog sat" for number in range(200_000))
    figures = language_model.replace_model(Recording()).evaluate(lines)
    assert figures["bits_per_character"] == pytest.approx(
        language_model.evaluate(["the dog sat"])["bits_per_character"]
    )
    assert seen[0] < 100_000 and max(np.diff(seen)) < 100_000


@pytest.mark.parametrize("boundary", ["sentence", "text", "stream"])
@pytest.mark.parametrize("tokenizer", KINDS)
def test_blank_lines_are_no_sentences_as_in_evaluate(tokenizer, boundary):
    lines = ["the cat sat", "", "the cat", " \t", "cat the\n", "\n", "\u3000", "  ", "sat"]
    model = build_model(tokenizer, lines * 9, boundary=boundary)
    scores = list(model.score(lines))
    figures = model.evaluate(lines)
    assert len(scores) == len(lines)
    assert sum(score.tokens for score in scores) == figures["tokens"]
    if boundary != "stream":  # `evaluate` reads a stream as one sentence
        assert sum(score.log_prob for score in scores) == pytest.approx(
            figures["log_prob"], rel=1e-5
        )
    for line, score, tokens in zip(lines, scores, model.score_tokens(lines), strict=True):
        assert len(tokens) == score.tokens
        assert line.strip(" \t\n") or (score.log_prob, score.tokens) == (0.0, 0)


def test_reserved_words_are_unknown_words_or_refused():
    lines = ["the cat sat", "the dog sat on the mat", "a zzz sat"] * 3
    model = build_model("whitespace", lines, vocabulary=Vocabulary(["the", "cat", "sat"]))
    found, expected = (model.evaluate([f"the {word} sat", "a cat"]) for word in ("<pad>", "zzz"))
    assert found["log_prob"] == expected["log_prob"]
    assert count_new_words(model, ["the <pad> new new"]) == {"new": 2}
    for word in ("<s>", "</s>"):
        with pytest.raises(InputError, match=f"reserved token {word}"):
            model.evaluate([f"the {word} sat"])
