"""The study of added words: its figures against the models' own log-probabilities."""

import numpy as np
import pytest

from keras_nplm import NPLM, LanguageModel, Vocabulary, add_words
from keras_nplm.data.corpora import SPLITS, Corpus
from keras_nplm.data.encoding import encode_corpus, encode_sentences
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.studies import new_words
from keras_nplm.language_model.new_words import RULES

WORDS = ["the", "cat", "sat", "on", "mat", "."]
V, N = len(WORDS) + 4, 4
TEXT = ["the dog sat on the mat .", "", "the dog and the cat sat .", "on the dog", "a rug . and the dog"]


def _language_model(boundary: str = "stream") -> LanguageModel:
    model = NPLM(V, order=N, embedding_dim=3, hidden_units=5, boundary=boundary)
    random = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.6, weight.shape))
    return LanguageModel(model, Vocabulary(WORDS), "whitespace")


@pytest.mark.long
def test_the_study_measures_the_models(tmp_path, monkeypatch):
    monkeypatch.setattr(new_words, "_OCCURRENCES", (1,))

    def corpus(split):
        return lambda: iter([line.split() for line in TEXT * (3 if split == "validation" else 1) if line])

    trained = _language_model()
    trained.vocabulary = trained.vocabulary.with_words(["dog", "and"])
    trained.model = NPLM(V + 2, order=N, embedding_dim=3, hidden_units=5, boundary="stream")
    without = _language_model()
    for row, language_model in zip(new_words.ROWS, (trained, without), strict=True):
        language_model.save(tmp_path / row.name)
    text = Corpus("text", "whitespace", {split: corpus(split) for split in SPLITS})
    encode_corpus(text, trained.vocabulary, tmp_path / new_words.ROWS[0].name / "corpus")
    report = new_words.measure(tmp_path)
    shown = [["<unk>" if word in ("a", "rug") else word for word in line.split()] for line in TEXT if line]
    ngrams = extract_ngrams(encode_sentences(shown, trained.vocabulary), N, "stream")
    follows = (ngrams[:, :-1] >= V).any(axis=1) & (ngrams[:, -1] < V) & (ngrams[:, -1] != 1)

    def check(measures, log_prob):
        assert measures["following"] == pytest.approx(log_prob[follows].mean(), abs=1e-5)
        assert measures["themselves"] == pytest.approx(log_prob[ngrams[:, -1] >= V].mean(), abs=1e-5)
        assert measures["perplexity"] == pytest.approx(np.exp(-log_prob.mean()), rel=1e-5)

    check(report["trained"], trained.model.log_prob(ngrams[:, :-1], ngrams[:, -1]))
    first = [line.split() for line in TEXT * 3 if line]  # each word once, others unknown
    first = [["<unk>" if w in ("dog", "and", "a", "rug") else w for w in line] for line in first]
    first[0][1], first[1][2] = "dog", "and"
    lines, frequencies = new_words.limit_occurrences([line.split() for line in TEXT * 3 if line], ["dog", "and"], 1)
    unknown = [["<unk>" if word in ("a", "rug") else word for word in line.split()] for line in lines]
    assert unknown == first
    expected = {"dog": 1 / 10_002, "and": 1 / 10_010}
    assert frequencies == pytest.approx(expected)
    for rule in RULES:
        model = add_words(without, [" ".join(line) for line in first], ["dog", "and"], rule=rule, frequencies=expected)
        ids = extract_ngrams(encode_sentences(shown, model.vocabulary), N, "stream")
        check(report["introduced"][0][rule], model.model.log_prob(ids[:, :-1], ids[:, -1]))
    old = np.where(ngrams < V, ngrams, 1)
    log_prob = without.model.log_prob(old[:, :-1], old[:, -1]).astype(np.float64)
    unknown = 24 / 69  # of validation: dog, and, a, rug
    for place, token in enumerate([word for line in shown for word in line]):
        if token in expected:
            log_prob[place] += np.log(expected[token] / unknown)
        elif token == "<unk>":
            log_prob[place] += np.log(1 - sum(expected.values()) / unknown)
    check(report["introduced"][0]["unknown"], log_prob)
    assert len(new_words.format_report(report).splitlines()) == 2 + 3 + 1
