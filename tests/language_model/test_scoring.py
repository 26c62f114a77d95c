"""Sentence scores: sums of log-probabilities over the tokens."""

import numpy as np
import pytest

from keras_nplm.models.base import NextWordModel
from keras_nplm.models.spelling import SpellingModel
from tests.tokenizers import KINDS, build_model

SENTENCES = ["the cat sat", "", "a dog", "the mat on the mat " * 300]


@pytest.mark.parametrize(
    "boundary, start, end",
    [("stream", [0, 0], []), ("sentence", [2, 2], [3]), ("text", [2, 2], [3])],
)
def test_the_score_is_the_sum_over_the_tokens(build_ngram_model, boundary, start, end):
    language_model = build_ngram_model(boundary)
    for sentence, score in zip(SENTENCES, language_model.score(SENTENCES, alone=True), strict=True):
        ids = [*start, *language_model.vocabulary.encode(sentence.split()).tolist(), *end]
        contexts = np.array([ids[i - 2 : i] for i in range(2, len(ids))]).reshape(-1, 2)
        expected = language_model.model.next_log_probs(contexts)[
            np.arange(len(contexts)), ids[2:]
        ].sum()
        assert score.log_prob == pytest.approx(expected, rel=1e-5)
        assert (score.tokens, score.unk_tokens) == (len(ids) - 2, ids.count(1))


def test_lines_of_a_text_follow_the_lines_before(build_ngram_model):
    language_model = build_ngram_model("text")
    context = [2, 2]
    lines = ["the cat sat", "on", "", "", "the dog", "mat on", "sat"]
    for line, score in zip(lines, language_model.score(lines), strict=True):
        ids = [*language_model.vocabulary.encode(line.split()), 3] if line else []
        expected = 0.0
        for target in ids:
            expected += language_model.model.next_log_probs([context])[0, target]
            context = [context[1], target]
        context = context if line else [2, 2]
        assert (score.log_prob, score.tokens) == (pytest.approx(expected, rel=1e-5), len(ids))
    # of several batches, after the first line
    [_, *scores] = language_model.score(["the " + "x" * 1000] * 2200)
    assert len({score.log_prob for score in scores}) == 1


def test_a_long_text_is_evaluated_while_it_is_read(build_ngram_model):
    language_model = build_ngram_model("sentence")
    # unknown words are spelled in chunks
    language_model.spelling = SpellingModel({"dog": 1, "dogs": 1})
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


def test_an_empty_hypothesis_is_no_blank_line(build_ngram_model):
    language_model = build_ngram_model("sentence")
    [alone] = language_model.score([""], alone=True)
    scorer = language_model.scorer()
    assert (alone.log_prob, alone.tokens) == (pytest.approx(scorer.end(scorer.begin())), 1)
    [blank] = language_model.score([""])
    assert (type(blank.log_prob), blank.log_prob, blank.tokens) == (float, 0.0, 0)
