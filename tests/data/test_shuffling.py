import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.data.shuffling as shuffling
from keras_nplm.data.ngram_arrays import gather_ngrams
from keras_nplm.data.shuffling import Pools
from keras_nplm.io.errors import InputError


def _read_epoch(pools: Pools, order: int, epoch: int) -> list[tuple[int, ...]]:
    parts = [gather_ngrams(*pools.load(epoch, pool), order) for pool in range(pools.count)]
    return list(map(tuple, np.concatenate(parts).tolist()))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(4, 9), max_size=12), min_size=1, max_size=8),
    st.lists(st.integers(0, 30), max_size=4).map(sorted),
    st.integers(2, 6),
    st.sampled_from(["stream", "sentence"]),
    st.booleans(),
    st.integers(1, 9),
    st.integers(1, 4),
)
def test_pools_have_each_ngram_of_the_text_once_an_epoch(
    tmp_path_factory, write_shards, list_ngrams, sentences, cuts, order, boundary, shuffle, block, pool
):
    """Contexts reach over the ends of sentences, shards, blocks and pools."""
    ids = np.array([token for sentence in sentences for token in (*sentence, 3)], np.int32)
    expected = list_ngrams(ids, order, boundary)
    shards = write_shards(tmp_path_factory.mktemp("shards"), ids, [min(cut, len(ids)) for cut in cuts])
    with pytest.MonkeyPatch.context() as context:
        context.setattr(shuffling, "BLOCK", block)
        context.setattr(shuffling, "POOL", pool * block)
        if not expected:
            with pytest.raises(InputError, match="no word to predict"):
                Pools(shards, order, boundary)
            return
        pools = Pools(shards, order, boundary, shuffle=shuffle)
    assert pools.number == len(expected)
    for epoch in range(2):
        found = _read_epoch(pools, order, epoch)
        assert (sorted(found) == sorted(expected)) if shuffle else (found == expected)


def test_pools_find_the_place_after_any_number_of_ngrams(tmp_path, monkeypatch, write_shards):
    monkeypatch.setattr(shuffling, "BLOCK", 5)
    monkeypatch.setattr(shuffling, "POOL", 15)
    pools = Pools(write_shards(tmp_path, np.r_[4:60, 3, 3, 3, 3, 3, 3, 3, 60:90]), 3, "stream", seed=1)
    whole = _read_epoch(pools, 3, epoch=7)
    for skipped in range(len(whole)):
        pool, first = pools.place(skipped)
        assert tuple(gather_ngrams(*pools.load(7, pool), 3)[first]) == whole[skipped]
