"""Kneser-Ney smoothing against Chen & Goodman's formulas in plain Python, and against KenLM on Brown."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import InputError, evaluate
from keras_nplm.data.ngram_arrays import predicted_ids
from keras_nplm.models.ngrams import kneser_ney
from keras_nplm.models.ngrams.kneser_ney import estimate_discounts

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence")


def _texts(sentences=12):
    words = st.sampled_from([1, *range(4, V - 1)])  # the last word is never seen
    sentence = st.lists(words, min_size=1, max_size=9).map(lambda ids: [*ids, 3])
    return st.lists(sentence, min_size=1, max_size=sentences).map(lambda s: np.concatenate(s).astype(np.int32))


class PlainKneserNey:
    """Chen & Goodman's formulas with dictionaries."""

    def __init__(self, events, order, boundary):
        self.order = order
        self.predicted = predicted_ids(V, boundary).tolist()
        self.a = [collections.Counter() for _ in range(order)]
        for context, word in events:
            for k in range(1, order + 1):
                if k - 1 <= len(context):
                    self.a[k - 1][(*context[len(context) - k + 1 :], word)] += 1
        for k in range(order - 1, 0, -1):
            before = collections.Counter(ngram[1:] for ngram in self.a[k])
            self.a[k - 1] = {g: c if g[0] == 2 else max(before[g], 1) for g, c in self.a[k - 1].items()}

    def p(self, context, word):
        k = len(context) + 1
        followers = {g: c for g, c in self.a[k - 1].items() if g[:-1] == context}
        uniform = (word in self.predicted) / len(self.predicted)
        lower = uniform if k == 1 else self.p(context[1:], word)
        if not followers:
            return lower
        d = [0.0, *estimate_discounts(np.array(list(self.a[k - 1].values())))]
        total = sum(followers.values())
        gamma = sum(d[min(c, 3)] for c in followers.values()) / total
        c = followers.get((*context, word), 0)
        return (c - d[min(c, 3)]) / total + gamma * lower


@settings(max_examples=40, deadline=None)
@given(_texts(), st.integers(2, 4), st.sampled_from(BOUNDARIES), st.integers(0, 1 << 30))
def test_kneser_ney_follows_the_formula(list_events, pad_contexts, ids, order, boundary, seed):
    events = list(list_events(ids, order, boundary))
    model, plain = kneser_ney(ids, V, order, boundary), PlainKneserNey(events, order, boundary)
    seen = {context for context, _ in events}
    rng = np.random.default_rng(seed)
    seen |= {tuple(rng.integers(4, V, rng.integers(0, order)).tolist()) for _ in range(5)}
    contexts = sorted(seen)[:25]
    log_probs = model.next_log_probs(pad_contexts(contexts, order))
    expected = [[plain.p(context, word) for word in range(V)] for context in contexts]
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=2e-6)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, atol=1e-5)
    for word in range(V):
        targets = np.full(len(contexts), word)
        np.testing.assert_array_equal(model.log_prob(pad_contexts(contexts, order), targets), log_probs[:, word])


def test_discounts_are_those_of_chen_and_goodman():
    counts = np.repeat([1, 2, 3, 4, 7], [100, 40, 20, 10, 5])
    y = 100 / (100 + 2 * 40)
    expected = [1 - 2 * y * 40 / 100, 2 - 3 * y * 20 / 40, 3 - 4 * y * 10 / 20]
    np.testing.assert_allclose(estimate_discounts(counts), expected)
    np.testing.assert_allclose(estimate_discounts(np.array([1, 1, 2])), [0.5, 1.0, 1.5])  # nothing seen 3 or 4 times
    np.testing.assert_allclose(
        estimate_discounts(np.repeat([1, 2, 3, 4], [1, 1, 1, 9])), [0.5, 1.0, 1.5]
    )  # D_3 is negative


def test_third_discount_is_3_where_nothing_is_seen_4_times():
    """As in KenLM's lmplz, which falls back only where a count of 1, 2 or 3 is missing."""
    y = 100 / (100 + 2 * 40)
    counts = np.repeat([1, 2, 3, 5], [100, 40, 20, 7])
    np.testing.assert_allclose(estimate_discounts(counts), [1 - 2 * y * 0.4, 2 - 3 * y * 0.5, 3])
    for missing in (1, 2, 3):
        np.testing.assert_allclose(estimate_discounts(counts[counts != missing]), [0.5, 1, 1.5])


def test_a_discount_of_0_falls_back():
    fallback = estimate_discounts(np.array([1, 2, 3, 3, 4]))  # D_2 = 0 would leave γ = 0
    np.testing.assert_allclose(fallback, [0.5, 1.0, 1.5])


@pytest.mark.parametrize("order, boundary, message", [(1, "stream", "`order`"), (3, "book", "`boundary`")])
def test_order_1_and_unknown_boundaries_are_refused(order, boundary, message):
    with pytest.raises(InputError, match=message):
        kneser_ney(np.array([4, 5, 3]), V, order, boundary)


def test_empty_text_is_refused():
    with pytest.raises(InputError, match="no word to predict"):
        kneser_ney(np.array([3]), V, 3, "stream")


@pytest.mark.parametrize(
    "boundary, order, validation, test",
    [
        pytest.param("stream", 3, 350.22, 332.70, marks=pytest.mark.long),
        pytest.param("stream", 4, 348.00, 330.51, marks=pytest.mark.long),
        pytest.param("stream", 5, 347.37, 329.86, marks=pytest.mark.long),
        pytest.param("sentence", 3, 254.90, 236.85, marks=pytest.mark.long),
        pytest.param("sentence", 5, 253.07, 235.15, marks=pytest.mark.long),
    ],
)
def test_perplexity_on_brown_is_that_of_kenlm(brown, boundary, order, validation, test):
    """The figures of `lmplz --vocab_pad` on the same text."""
    model = kneser_ney(brown.ids("train"), brown.vocabulary_size, order, boundary)
    found = [evaluate(model, brown.ids(split))["perplexity"] for split in ("validation", "test")]
    assert found == pytest.approx([validation, test], abs=0.05)
