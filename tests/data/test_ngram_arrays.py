"""N-grams of a text in NumPy: in order, in blocks, and shuffled in pools of blocks of shards."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ids import find_distinct_rows
from keras_nplm.data.layouts import Windows
from keras_nplm.data.ngram_arrays import (
    extract_ngrams,
    gather_ngrams,
    ngram_blocks,
    ngram_positions,
)
from keras_nplm.data.pools import Pools
from keras_nplm.io.errors import InputError

BOUNDARIES = st.sampled_from(["stream", "sentence", "text"])


@given(
    st.lists(st.integers(2, 6), min_size=1, max_size=20),
    st.lists(st.integers(0, 20), max_size=6).map(sorted),
    st.integers(2, 5),
    BOUNDARIES,
    st.integers(1, 7),
    st.integers(4, 7),
)
def test_ngrams_are_those_of_a_plain_enumeration(
    list_ngrams, ids, cuts, order, boundary, size, targets_below
):
    """Blocks are the same wherever the text is cut."""
    ids = np.array([word for word in ids if word > 2 or boundary == "text"], np.int32)
    expected = list_ngrams(ids, order, boundary)
    assert {ngram[-1] for ngram in expected} <= set(predicted_ids(10, boundary).tolist())
    limited = [ngram for ngram in expected if ngram[-1] < targets_below]
    with (
        contextlib.nullcontext()
        if limited
        else pytest.raises(InputError, match="no word to predict")
    ):
        found = gather_ngrams(*ngram_positions(ids, order, boundary, targets_below), order)
        assert found.dtype == np.int32 and list(map(tuple, found.tolist())) == limited
    with (
        contextlib.nullcontext()
        if expected
        else pytest.raises(InputError, match="no word to predict")
    ):
        blocks = list(ngram_blocks(np.split(ids, cuts), order, boundary, size))
        assert list(map(tuple, np.concatenate(blocks).tolist())) == expected
        assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1) and len(
            blocks[-1]
        ) <= size


@pytest.mark.parametrize("multiplier", [0x9E3779B97F4A7C15, 0])  # 0: all rows have the same hash
def test_distinct_rows_survive_hash_collisions(monkeypatch, multiplier):
    monkeypatch.setattr("keras_nplm.data.ids._MULTIPLIER", np.uint64(multiplier))
    rows = np.random.default_rng(0).integers(0, 4, (99, 3)).astype(np.int32)
    for keep_order, expected in (
        (False, np.unique(rows, axis=0)),
        (True, list(dict.fromkeys(map(tuple, rows)))),
    ):
        contexts, which = find_distinct_rows(rows, keep_order=keep_order)
        np.testing.assert_array_equal(contexts[which], rows)
        assert which.dtype == np.int32 and len(contexts) == len(expected)
        assert not keep_order or (contexts == expected).all()


def _read_epoch(pools: Pools, order: int, epoch: int) -> list[tuple[int, ...]]:
    parts = [gather_ngrams(*pools.load(epoch, pool), order) for pool in range(pools.count)]
    return list(map(tuple, np.concatenate(parts).tolist()))


@settings(deadline=None)
@given(
    st.lists(st.integers(2, 3) | st.integers(4, 9), min_size=1, max_size=60)
    | st.just([4, 5, 3, 6, 3, 7, 3, 3, 8, 9, 3, 4, 5] * 4),
    st.lists(st.integers(0, 60), max_size=4).map(sorted),
    st.integers(2, 6),
    BOUNDARIES,
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_pools_have_each_ngram_of_the_text_once_an_epoch(
    tmp_path_factory, write_shards, list_ngrams, ids, cuts, order, boundary, shuffle, block, pool
):
    """Contexts reach over the ends of sentences, shards, blocks and pools."""
    ids = np.array([word for word in ids if word > 2 or boundary == "text"], np.int32)
    expected = list_ngrams(ids, order, boundary)
    shards = write_shards(
        tmp_path_factory.mktemp("shards"), ids, [min(cut, len(ids)) for cut in cuts]
    )
    with pytest.MonkeyPatch.context() as context:
        context.setattr("keras_nplm.data.pools.BLOCK", block)
        context.setattr("keras_nplm.data.pools.POOL", pool * block)
        layout = Windows(order, boundary, targets_below=None)
        if not expected:
            with pytest.raises(InputError, match="0 n-grams"):
                Pools(shards, layout)
            return
        pools = Pools(shards, layout, shuffle)
    assert pools.number == len(expected)
    for epoch in range(2):
        found = _read_epoch(pools, order, epoch)
        assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)


def test_more_tokens_than_positions_can_number_are_refused():
    ids = np.array([4, 3, 5, 3], np.int32)
    with pytest.raises(InputError, match="fewer than 2,147,483,648 tokens .* 3,221,225,4"):
        extract_ngrams(ids, 1 << 30, "sentence")
