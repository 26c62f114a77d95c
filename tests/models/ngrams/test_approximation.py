"""Back-off approximations of any model: against plain Python, sums of 1, and KenLM."""

import collections

import numpy as np
import pytest

import keras_nplm.models.ngrams.approximation as approximation
from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.models.ngrams import BackoffModel
from keras_nplm.models.ngrams.approximation import approximate
from keras_nplm.models.ngrams.tables import ContextTrie
from tests.language_models import BOUNDARIES, V, build, make_text


def _listed(model):
    """P of the n-grams of each order, by their words."""
    tables = [{(w,): p for w, p in enumerate(np.exp(model.unigrams, dtype=np.float64)) if p > 0}]
    for k, log_probs in enumerate(model.log_probs, start=2):
        ngrams = map(tuple, model.ngrams(k).tolist())
        tables.append(dict(zip(ngrams, np.exp(log_probs, dtype=np.float64), strict=True)))
    return tables


def _plain(model, ids, order, boundary, least):
    """The same with loops: c(h w) / c(h) of what is listed."""
    tokens, positions = ngram_positions(ids, model.order, boundary)
    predicted = predicted_ids(V, boundary).tolist()
    expected, times, text = [[collections.Counter() for _ in range(order)] for _ in range(3)]
    for position in positions.tolist():
        context = tokens[position - model.order + 1 : position].tolist()
        p = np.exp(model.next_log_probs(np.array([context]))[0])
        p /= p[predicted].sum()
        for k in range(order):
            h = tuple(context[len(context) - k :])
            if 0 in h or 2 in h[1:]:
                break
            times[k][h] += 1
            text[k][(*h, int(tokens[position]))] += 1
            for w in predicted:
                expected[k][(*h, w)] += p[w]
    whole = sum(expected[0].values())
    tables = [{ngram: count / whole for ngram, count in expected[0].items()}]
    for k in range(1, order):
        listed = [
            ngram for ngram, count in expected[k].items() if count > least or ngram in text[k]
        ]
        tables.append({ngram: expected[k][ngram] / times[k][ngram[:-1]] for ngram in listed})
    return tables


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "name, order, rows",
    [
        # every id has some probability, <pad>, too
        pytest.param("nplm", 2, 1000, id="bigrams in one block"),
        pytest.param("nplm", 3, 1, id="trigrams, a context at a time"),
        pytest.param("kneser-ney", 4, 7, id="four-grams in blocks of 7"),
    ],
)
def test_probabilities_are_those_of_plain_loops(boundary, name, order, rows, monkeypatch):
    monkeypatch.setattr(approximation, "MAX_BLOCK_SIZE", rows)
    model = build(name, boundary)
    ids = make_text(1, boundary, 300)
    ours = _listed(approximate(model, ids, order, boundary, 0.4))
    plain = _plain(model, ids, order, boundary, 0.4)
    assert [set(table) for table in ours] == [set(table) for table in plain]
    for table, expected in zip(ours, plain, strict=True):
        for ngram, p in expected.items():
            assert table[ngram] == pytest.approx(p, rel=2e-5)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_fitted_unigrams_keep_the_marginals(boundary, monkeypatch):
    monkeypatch.setattr(approximation, "UNSEEN_SHARE", 1e-9)
    words = [1, *range(4, 12)]
    end = boundary == "sentence"
    together = np.random.default_rng(1).exponential(1, (len(words) + end,) * 2) ** 3
    # P(v w): words stand as often before others as after, <s> as often as </s>
    pairs = np.zeros((12, 12))
    pairs[np.ix_(words + [2] * end, words + [3] * end)] = together + together.T
    pairs /= pairs.sum()
    before = pairs.sum(axis=1)
    after = pairs.sum(axis=0)
    marginals = np.log(np.maximum(after, 1e-300)).astype(np.float32)
    listed = np.flatnonzero((pairs > 0.004).ravel())
    log_probs = np.log(pairs.ravel()[listed] / before[listed // 12]).astype(np.float32)
    pruned = BackoffModel.normalised(ContextTrie(12, []), marginals, [listed], [log_probs])

    def error(model):
        return np.abs(
            before @ np.exp(model.next_log_probs(np.arange(12)[:, None]).astype(float)) - after
        ).max()

    assert error(approximation.fit_unigrams(pruned, marginals)) < 1e-5 < 1e-3 < error(pruned)
