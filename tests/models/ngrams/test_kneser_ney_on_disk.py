"""Kneser-Ney in partitions on disk: the tables of `kneser_ney`, bit for bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.models.ngrams import BackoffModel, kneser_ney, kneser_ney_on_disk, partitions

V = 9  # <pad> <unk> <s> </s> and five words
BOUNDARIES = ("stream", "sentence")
ROW = 48  # bytes of `memory` for each word of a counted n-gram


def _estimate(path, ids, size, order, boundary, tokens, cut=0):
    """Estimate on disk, with the n-grams of `tokens` tokens in memory; the text comes in two
    parts.
    """

    def read_parts():
        yield ids[:cut]
        yield ids[cut:]

    memory = tokens * ROW * order
    kneser_ney_on_disk(path, read_parts, len(ids), size, order, boundary, memory)
    return BackoffModel.load(path, boundary)


def assert_same_tables(found, expected):
    found_tables = found.arrays()
    for name, tables in expected.arrays().items():
        if isinstance(tables, list):
            assert len(found_tables[name]) == len(tables)
            for one, other in zip(found_tables[name], tables, strict=True):
                np.testing.assert_array_equal(one, other, name, strict=True)
        else:
            np.testing.assert_array_equal(found_tables[name], tables, name, strict=True)


_sentences = st.lists(st.sampled_from([1, 4, 4, 5, 6]), min_size=1, max_size=9)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(_sentences, min_size=1, max_size=12),
    st.integers(1, 9),  # 1: no contexts; above the longest sentence: empty orders
    st.sampled_from([*BOUNDARIES, "text"]),
    st.integers(1, 40),
    st.integers(0, 20),
)
def test_tables_equal_those_in_memory(tmp_path_factory, sentences, order, boundary, tokens, cut):
    ids = np.array([word for sentence in sentences for word in (*sentence, 3)], np.int32)
    # two documents
    ids = np.append(ids, [2, *ids[::-1]]).astype(np.int32) if boundary == "text" else ids
    path = tmp_path_factory.getbasetemp() / "ngrams.npz"
    found = _estimate(path, ids, V, order, boundary, tokens, cut)
    assert_same_tables(found, kneser_ney(ids, V, order, boundary))


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(
    "size, order",
    [
        pytest.param(300, 5, id="a small vocabulary"),
        pytest.param(1 << 20, 6, id="keys of two words do not fit beside a place"),
    ],
)
def test_large_tables_equal_those_in_memory(tmp_path, monkeypatch, size, order, boundary):
    """In files, in several blocks, and with a vocabulary so large that keys of two words do not fit
    beside a place.
    """
    monkeypatch.setattr(partitions, "IN_MEMORY", 100)
    monkeypatch.setattr(partitions, "BLOCK", 512)
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.3, 6000) * (size // 300) + 3, size - 1).astype(np.int32)
    ids[rng.random(6000) < 0.1] = 3
    ids[-1] = 3
    found = _estimate(tmp_path / "ngrams.npz", ids, size, order, boundary, 700, 2000)
    assert_same_tables(found, kneser_ney(ids, size, order, boundary))
    assert [path.name for path in tmp_path.iterdir()] == ["ngrams.npz"]
