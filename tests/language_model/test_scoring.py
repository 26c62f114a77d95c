"""Sentence scores: sums of log-probabilities over the tokens, each distinct n-gram evaluated
once.
"""

import numpy as np
import pytest

from keras_nplm import LanguageModel, NBestList, kneser_ney, rescore
from keras_nplm.data.shards import encode_lines
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.spelling import SpellingModel
from tests.tokenizers import KINDS, build_vocabulary

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


@pytest.mark.parametrize("characters", [1, 1 << 20])
def test_lines_of_a_text_are_scored_after_the_lines_before(
    build_ngram_model, monkeypatch, characters
):
    monkeypatch.setattr("keras_nplm.language_model.scoring.BATCH_CHARACTERS", characters)
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


def test_a_long_text_is_evaluated_while_it_is_read(build_ngram_model, monkeypatch):
    monkeypatch.setattr("keras_nplm.data.shards.BATCH_TOKENS", 50)
    monkeypatch.setattr("keras_nplm.data.text_counts.LINES_SIZE", 50)
    monkeypatch.setattr("keras_nplm.models.evaluation.BLOCK_SIZE", 100)
    language_model = build_ngram_model("sentence")
    read = []
    seen = []
    language_model.spelling = SpellingModel({"dog": 1, "dogs": 1})
    # unknown words are spelled in chunks
    whole = pytest.approx(language_model.evaluate(["the dog sat"] * 1000))
    kind = type(language_model.model)
    log_prob = kind.log_prob
    monkeypatch.setattr(kind, "log_prob", lambda *ids: seen.append(len(read)) or log_prob(*ids))
    assert (
        language_model.evaluate(read.append(number) or "the dog sat" for number in range(1000))
        == whole
    )
    assert seen[0] < 100 and max(np.diff(seen)) < 100


@pytest.mark.parametrize(
    "boundary, start, end", [("stream", [0, 0], []), ("sentence", [2, 2], [3])]
)
def test_each_distinct_ngram_is_evaluated_once(build_ngram_model, boundary, start, end):
    original = build_ngram_model(boundary)
    evaluated = []

    class Recording(NextWordModel):
        order = original.model.order
        vocabulary_size = original.model.vocabulary_size

        def _log_prob(self, context_ids, target_ids):
            evaluated.extend(map(tuple, np.column_stack([context_ids, target_ids]).tolist()))
            return original.model.log_prob(context_ids, target_ids)

    language_model = LanguageModel(Recording(), original.vocabulary, "words", boundary)
    texts = ["the cat sat on a mat", "the cat sat on the mat", "a cat", "", "mat"]
    list(language_model.score(texts * 2))
    ids = [[*start, *original.vocabulary.encode(text.split()).tolist(), *end] for text in texts]
    ids = [row for row, text in zip(ids, texts, strict=True) if text]  # a blank line is no sentence
    expected = {tuple(row[i : i + 3]) for row in ids for i in range(len(row) - 2)}
    assert sorted(evaluated) == sorted(expected)


@pytest.mark.parametrize("boundary", ["sentence", "text", "stream"])
@pytest.mark.parametrize("tokenizer", KINDS)
def test_blank_lines_are_no_sentences_as_in_evaluate(tokenizer, boundary):
    lines = ["the cat sat", "", "the cat", " \t", "cat the\n", "\n", "\u3000", "  ", "sat"]
    vocabulary = build_vocabulary(tokenizer, lines * 9)
    ids = encode_lines(lines * 9, vocabulary, tokenizer, boundary)
    model = LanguageModel(
        kneser_ney(ids, len(vocabulary), 3, boundary), vocabulary, tokenizer, boundary
    )
    scores = list(model.score(lines))
    figures = model.evaluate(lines)
    assert len(scores) == len(lines)
    assert sum(score.tokens for score in scores) == figures["tokens"]
    if boundary != "stream":  # `evaluate` reads a stream as one sentence
        assert sum(score.log_prob for score in scores) == pytest.approx(
            figures["log_prob"], rel=1e-5
        )
    blank = [score for score, line in zip(scores, lines, strict=True) if not line.strip(" \t\n")]
    assert {(score.log_prob, score.tokens) for score in blank} == {(0.0, 0)}
    assert [len(tokens) for tokens in model.score_tokens(lines)] == [
        score.tokens for score in scores
    ]


def test_an_empty_hypothesis_is_no_blank_line(build_ngram_model):
    language_model = build_ngram_model("sentence")
    expected = language_model.model.next_log_probs(
        language_model.codec.first_context(language_model.model.order)[None]
    )[0, 3]
    [alone] = language_model.score([""], alone=True)
    assert (alone.log_prob, alone.tokens) == (pytest.approx(expected), 1)
    [rescored] = rescore(language_model, [NBestList("0", ["", "the cat"])])
    assert rescored.features["nplm"][rescored.texts.index("")] == pytest.approx(expected)


def test_the_score_of_a_blank_sentence_is_a_float(build_ngram_model):
    [score] = build_ngram_model("sentence").score([""])
    assert (type(score.log_prob), score.log_prob, score.tokens) == (float, 0.0, 0)
