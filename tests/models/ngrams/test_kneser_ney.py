"""Kneser-Ney smoothing against Chen & Goodman's formulas in plain Python, and against KenLM on
Brown; in several sorted runs on disk, the same tables bit for bit.
"""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import evaluate
from keras_nplm.data.boundary import predicted_ids
from keras_nplm.models.ngrams import BackoffModel, kneser_ney, kneser_ney_on_disk
from keras_nplm.models.ngrams.kneser_ney import estimate_discounts
from tests.models.ngrams.plain import V, list_events, pad_contexts, texts

BOUNDARIES = ("stream", "sentence", "text")
ROW = 80  # bytes of `memory` for each word of a counted n-gram


def _count_frequencies(counts):
    return np.bincount(np.minimum(counts, 5), minlength=6)


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
            self.a[k - 1] = {
                g: c if g[0] == 2 else max(before[g], 1) for g, c in self.a[k - 1].items()
            }

    def p(self, context, word):
        k = len(context) + 1
        followers = {g: c for g, c in self.a[k - 1].items() if g[:-1] == context}
        uniform = (word in self.predicted) / len(self.predicted)
        lower = uniform if k == 1 else self.p(context[1:], word)
        if not followers:
            return lower
        d = [0.0, *estimate_discounts(_count_frequencies([*self.a[k - 1].values()]))]
        total = sum(followers.values())
        gamma = sum(d[min(c, 3)] for c in followers.values()) / total
        c = followers.get((*context, word), 0)
        return (c - d[min(c, 3)]) / total + gamma * lower


@settings(max_examples=40)
@given(
    st.data(),
    st.integers(1, 4),
    st.sampled_from(BOUNDARIES),
    st.integers(0, 1 << 30),
)
def test_kneser_ney_follows_the_formula(data, order, boundary, seed):
    ids = data.draw(texts(boundary))
    events = list(list_events(ids, order, boundary))
    model = kneser_ney(ids, V, order, boundary)
    plain = PlainKneserNey(events, order, boundary)
    seen = {context for context, _ in events}
    rng = np.random.default_rng(seed)
    seen |= {tuple(rng.integers(4, V, rng.integers(0, order)).tolist()) for _ in range(5)}
    contexts = sorted(seen)[:25]
    log_probs = model.next_log_probs(pad_contexts(contexts, order))
    expected = [[plain.p(context, word) for word in range(V)] for context in contexts]
    np.testing.assert_allclose(np.exp(log_probs), expected, atol=2e-6)
    for word in range(V):
        targets = np.full(len(contexts), word)
        np.testing.assert_array_equal(
            model.log_prob(pad_contexts(contexts, order), targets), log_probs[:, word]
        )


def _estimate_on_disk(path, ids, size, order, boundary, tokens, cut=0):
    """Estimate in runs of `tokens` tokens; the text comes in two parts."""
    memory = tokens * ROW * order
    parts = (ids[:cut], ids[cut:])
    kneser_ney_on_disk(path, parts, len(ids), size, order, boundary, memory)
    return BackoffModel.load(path, boundary)


def _list_tables(model):
    for name, tables in model.arrays().items():
        for i, table in enumerate(tables if isinstance(tables, list) else [tables]):
            yield f"{name}.{i}", table


def assert_same_tables(found, expected):
    for (name, one), (same, other) in zip(_list_tables(found), _list_tables(expected), strict=True):
        assert name == same
        np.testing.assert_array_equal(one, other, name, strict=True)


@settings(max_examples=40)
@given(
    st.data(),
    st.integers(1, 9),  # 1: no contexts; above the longest sentence: empty orders
    st.sampled_from(BOUNDARIES),
    st.integers(1, 40),
    st.integers(0, 20),
)
def test_runs_on_disk_have_the_tables_of_one_run(
    tmp_path_factory, data, order, boundary, tokens, cut
):
    ids = data.draw(texts(boundary))
    path = tmp_path_factory.getbasetemp() / "ngrams.npz"
    found = _estimate_on_disk(path, ids, V, order, boundary, tokens, cut)
    assert_same_tables(found, kneser_ney(ids, V, order, boundary))


@pytest.mark.parametrize("boundary", BOUNDARIES[:2])
@pytest.mark.parametrize(
    "size, order",
    [
        pytest.param(300, 6, id="a small vocabulary, columns in files"),
        pytest.param(1 << 20, 6, id="keys of two words do not fit beside a place"),
    ],
)
def test_a_large_text_has_the_tables_of_one_run(tmp_path, size, order, boundary):
    rng = np.random.default_rng(0)
    number = 300_000 if size == 300 else 6000
    ids = np.minimum(rng.zipf(1.3, number) * (size // 300) + 3, size - 1).astype(np.int32)
    ids[rng.random(number) < 0.1] = 3
    ids[-1] = 3
    path = tmp_path / "ngrams.npz"
    # products of an integer of 32 bits would overflow
    found = _estimate_on_disk(path, ids, np.int32(size), order, boundary, number // 7, 2000)
    assert_same_tables(found, kneser_ney(ids, size, order, boundary))
    assert [path.name for path in tmp_path.iterdir()] == ["ngrams.npz"]


Y = 100 / (100 + 2 * 40)


@pytest.mark.parametrize(
    "counts, times, expected",
    [
        pytest.param(
            [1, 2, 3, 4, 7],
            [100, 40, 20, 10, 5],
            [1 - 2 * Y * 0.4, 2 - 3 * Y * 0.5, 3 - 4 * Y * 0.5],
            id="the formula",
        ),
        # as in KenLM's lmplz
        pytest.param(
            [1, 2, 3, 5],
            [100, 40, 20, 7],
            [1 - 2 * Y * 0.4, 2 - 3 * Y * 0.5, 3],
            id="no count of 4",
        ),
        pytest.param([2, 3, 5], [40, 20, 7], [0.5, 1, 1.5], id="no count of 1"),
        pytest.param([1, 2, 5], [100, 40, 7], [0.5, 1, 1.5], id="no count of 3"),
        pytest.param([1, 2, 3, 4], [1, 1, 1, 9], [0.5, 1, 1.5], id="D_3 is negative"),
        # it would leave γ = 0
        pytest.param([1, 2, 3, 4], [1, 1, 2, 1], [0.5, 1, 1.5], id="D_2 is 0"),
    ],
)
def test_discounts_are_those_of_chen_and_goodman_or_fall_back(counts, times, expected):
    np.testing.assert_allclose(
        estimate_discounts(_count_frequencies(np.repeat(counts, times))), expected
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "boundary, order, validation, test",
    [
        ("stream", 3, 350.22, 332.70),
        ("stream", 5, 347.37, 329.86),
        ("sentence", 5, 253.07, 235.15),
    ],
)
def test_perplexity_on_brown_is_that_of_kenlm(brown, boundary, order, validation, test):
    """The figures of `lmplz --vocab_pad` on the same text."""
    model = kneser_ney(brown.ids("train"), brown.vocabulary_size, order, boundary)
    found = [evaluate(model, brown.ids(split))["perplexity"] for split in ("validation", "test")]
    assert found == pytest.approx([validation, test], abs=0.05)
