"""The study of normalisation: probabilities of original tokens are normalised distributions."""

import collections

import numpy as np
import pytest

from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.experiments.studies.normalisation import ROWS, OriginalTokens, compute_original_log_probs, format_report
from keras_nplm.models.evaluation import log_probs
from keras_nplm.models.ngrams import kneser_ney

WORDS = np.array([0, 1, 2, 3, 4, 4, 5, 5, 5, 6, 7])  # of the plain ids 4 to 10: The the cat cats Cat sat dog
SIZE = 8


@pytest.fixture(scope="module")
def texts():
    """s, c and b of a training and a validation text; `<unk>` among original tokens may have any word."""
    random = np.random.default_rng(0)

    def text(length):
        s = random.choice([1, 4, 5, 6, 7, 8, 9], length, p=[0.2, 0.1, 0.3, 0.1, 0.1, 0.05, 0.15])
        c = np.where(s == 1, random.choice([1, 5, 7], length), WORDS[s])
        return s, c, (random.random(length) < 0.2).astype(np.int64)

    return text(400), text(100)


@pytest.fixture(scope="module")
def originals(texts) -> OriginalTokens:
    return OriginalTokens(WORDS, SIZE, *texts)


def test_the_original_tokens_of_a_word_sum_to_1(originals):
    for b in range(2):
        for c in range(4, SIZE):
            tokens = np.flatnonzero(np.equal(WORDS, c))
            assert originals.tokens[b, tokens].sum() + originals.unknown[b, c] == pytest.approx(1)
            assert (originals.tokens[b, tokens] > 0).all() and originals.unknown[b, c] > 0
        assert originals.unknown[b, 1] == 1


def test_original_tokens_are_counted_by_sentence_start(texts, originals):
    (s, c, b), held_out = texts
    pairs, triples = collections.Counter(zip(s, c, strict=True)), collections.Counter(zip(s, c, b, strict=True))
    words, begun = collections.Counter(c), collections.Counter(zip(c, b, strict=True))

    def log_prob(s, c, b, a, d):
        if c == 1:
            return 0.0
        kinds = 1 + sum(word == c for word in WORDS[4:])
        p = (pairs[s, c] + a) / (words[c] + a * kinds)
        return np.log((triples[s, c, b] + d * p) / (begun[c, b] + d))

    expected = [log_prob(*token, *originals.weights) for token in zip(*held_out, strict=True)]
    np.testing.assert_allclose(originals.log_prob(*held_out), expected)
    worse = [log_prob(*token, 100.0, 100.0) for token in zip(*held_out, strict=True)]
    assert sum(expected) >= sum(worse)


@pytest.mark.parametrize("order", [2, 3])
def test_original_tokens_have_normalised_probabilities(texts, originals, order):
    (_, c, _), (s, words, b) = texts
    model = kneser_ney(np.append(c, 3).astype(np.int32), SIZE, order, "stream")
    ids = np.append(words, 3).astype(np.int32)
    found = compute_original_log_probs(model, ids, originals, s, b)
    whole = np.exp(model.next_log_probs(extract_ngrams(ids, order, "stream")[:, :-1]).astype(np.float64))  # [T, SIZE]
    plain = whole[:, WORDS] * originals.tokens[b]  # [T, |V|]
    plain[:, :4] = 0
    plain[:, 1] = (whole * originals.unknown[b]).sum(axis=1)
    np.testing.assert_allclose(plain.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(found), plain[np.arange(len(s)), s], rtol=1e-5)
    own = np.concatenate([part for part, _ in log_probs(model, ids, "stream")])
    assert (found <= own + 1e-6)[s != 1].all()


def test_the_table_shows_both_perplexities():
    figures = {"test": 200.0, "original": {"test": 200.0}}
    plain = {"steps": [], "words": 1000, "unk_share": 0.05, "form_bits": 0.0, "models": {"a": figures, "b": figures}}
    figures = {"test": 199.0, "original": {"test": 250.04}, "with_plain": {"test": 190.0}}
    lower = {"steps": ["lower", "numbers"], "words": 900, "unk_share": 0.04, "form_bits": 0.1}
    lower |= {"models": {"a": figures, "b": figures}}
    assert format_report({"rows": [plain, lower]}).splitlines()[2:] == [
        "| none | 1,000 | 5.0% | 0.000 | 200.0 | 200.0 |  | 200.0 | 200.0 |  |",
        "| lower numbers | 900 | 4.0% | 0.100 | 199.0 | 250.0 | 190.0 | 199.0 | 250.0 | 190.0 |",
    ]


def test_rows_without_normalisation_are_shared():
    assert {row.name: row.command for row in ROWS}["kneser-ney-5"] == "ngram --method kneser-ney --order 5"
    assert len({row.name for row in ROWS}) == len(ROWS) == 8
