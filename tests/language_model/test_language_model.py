"""LanguageModel: evaluation and next words."""

import numpy as np
import pytest

from keras_nplm import evaluate
from keras_nplm.data.corpus import SPLITS, Corpus
from keras_nplm.data.encoding import encode_corpus, encode_sentences

LINES = ["the cat sat", "", "on the mat"]  # a line without words is not a sentence of a text


@pytest.mark.parametrize("boundary", ["sentence", "stream"])
@pytest.mark.parametrize(
    "text, context, prefix", [("the ca", "the", "ca"), ("the ", "the", ""), ("x", "", "x")]
)
def test_next_words_are_the_most_probable_and_prefixes_select(
    build_ngram_model, boundary, text, context, prefix
):
    language_model = build_ngram_model(boundary)
    ids = language_model.codec.encode_beginning(context, 3)
    probabilities = np.exp(language_model.model.next_log_probs(ids[None])[0])
    words = dict(zip(language_model.vocabulary.words, probabilities.tolist(), strict=True))
    proposed = [word for word in words if word not in ("<pad>", "<unk>", "<s>")]
    if boundary == "stream":
        proposed.remove("</s>")
    proposed.sort(key=lambda word: -words[word])
    assert language_model.next_words(context, 100) == [
        (word, pytest.approx(words[word])) for word in proposed
    ]
    expected = [
        (word, pytest.approx(words[word]))
        for word in proposed
        if word.startswith(prefix) and word != "</s>"
    ]
    assert language_model.complete_prefix(text, 100) == expected
    assert language_model.complete_prefix(text, 1) == expected[:1]


def test_evaluate_takes_lines_ids_or_a_split(build_ngram_model, tmp_path):
    language_model = build_ngram_model("sentence")
    result = language_model.evaluate(LINES)
    scores = [score for line, score in zip(LINES, language_model.score(LINES), strict=True) if line]
    assert result["log_prob"] == pytest.approx(sum(score.log_prob for score in scores), rel=1e-6)
    assert result["tokens"] == sum(score.tokens for score in scores) == 8

    ids = encode_sentences([line.split() for line in LINES if line], language_model.vocabulary)
    of_ids = evaluate(language_model.model, ids)
    for given in (ids, ids.tolist()):
        assert language_model.evaluate(given).items() >= of_ids.items() <= result.items()

    sentences = dict.fromkeys(SPLITS, lambda: iter([line.split() for line in LINES if line]))
    corpus = Corpus("lines", "whitespace", sentences)
    language_model.corpus = encode_corpus(corpus, language_model.vocabulary, tmp_path / "corpus")
    assert language_model.evaluate() == language_model.evaluate("validation") == result
    assert build_ngram_model("stream").evaluate(LINES)["tokens"] == 6
    of_text = build_ngram_model("text")
    ids = encode_sentences(map(str.split, LINES), of_text.vocabulary, "text")
    assert of_text.evaluate(LINES)["log_prob"] == of_text.evaluate(ids)["log_prob"]
