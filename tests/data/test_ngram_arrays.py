"""N-grams of a text in NumPy: in order, and in blocks wherever the text is cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ids import find_distinct_rows
from keras_nplm.data.layouts import Windows
from keras_nplm.data.ngram_arrays import extract_ngrams, gather_ngrams, ngram_blocks
from keras_nplm.data.pools import Blocks
from keras_nplm.io.errors import InputError

BOUNDARIES = st.sampled_from(["stream", "sentence", "text"])


@given(
    st.lists(st.integers(2, 6), min_size=1, max_size=20),
    st.lists(st.integers(0, 20), max_size=6).map(sorted),
    st.integers(2, 5),
    BOUNDARIES,
    st.integers(1, 7),
)
def test_ngrams_are_those_of_a_plain_enumeration(list_ngrams, ids, cuts, order, boundary, size):
    """Blocks are the same wherever the text is cut."""
    ids = np.array([word for word in ids if word > 2 or boundary == "text"], np.int32)
    expected = list_ngrams(ids, order, boundary)
    assert {ngram[-1] for ngram in expected} <= set(predicted_ids(10, boundary).tolist())
    parts = np.split(ids, cuts)
    if not expected:
        with pytest.raises(InputError, match="no word to predict"):
            extract_ngrams(ids, order, boundary)
        with pytest.raises(InputError, match="no word to predict"):
            list(ngram_blocks(parts, order, boundary, size))
        return
    found = extract_ngrams(ids, order, boundary)
    assert found.dtype == np.int32 and list(map(tuple, found.tolist())) == expected
    blocks = list(ngram_blocks(parts, order, boundary, size))
    np.testing.assert_array_equal(np.concatenate(blocks), found)
    assert [len(block) for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    assert len(blocks[-1]) <= size


ONE_HASH = [[13363, 20962, 7], [21798, 16049, 1269105017]] * 2  # `find_distinct_rows` has it


@pytest.mark.parametrize("rows", [np.random.default_rng(0).integers(0, 4, (99, 3)), ONE_HASH])
def test_distinct_rows_survive_hash_collisions(rows):
    rows = np.array(rows, np.int32)
    for keep_order, expected in (
        (False, np.unique(rows, axis=0)),
        (True, list(dict.fromkeys(map(tuple, rows)))),
    ):
        contexts, which = find_distinct_rows(rows, keep_order=keep_order)
        np.testing.assert_array_equal(contexts[which], rows)
        assert which.dtype == np.int32 and len(contexts) == len(expected)
        assert not keep_order or (contexts == expected).all()


@given(
    st.lists(st.integers(2, 3) | st.integers(4, 9), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4).map(sorted),
    st.integers(2, 6),
    BOUNDARIES,
    st.integers(1, 9),
)
def test_blocks_have_each_ngram_of_the_text(
    tmp_path_factory, write_shards, list_ngrams, ids, cuts, order, boundary, size
):
    """Contexts reach over the ends of sentences, shards and blocks."""
    ids = np.array([word for word in ids if word > 2 or boundary == "text"], np.int32)
    directory = tmp_path_factory.mktemp("shards")
    shards = write_shards(directory, ids, [min(cut, len(ids)) for cut in cuts])
    blocks = Blocks(shards, Windows(order, boundary), size)
    found = [gather_ngrams(*blocks.load(i), order) for i in range(len(blocks.places))]
    assert list(map(len, found)) == blocks.places.tolist()
    rows = [tuple(row) for block in found for row in block.tolist()]
    assert rows == list_ngrams(ids, order, boundary)


def test_more_tokens_than_positions_can_number_are_refused():
    ids = np.array([4, 3, 5, 3], np.int32)
    with pytest.raises(InputError, match="fewer than 2,147,483,648 tokens .* 3,221,225,4"):
        extract_ngrams(ids, 1 << 30, "sentence")
