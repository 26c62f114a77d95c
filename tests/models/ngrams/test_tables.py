"""Look-ups in sorted tables against plain Python, few and many at a time; contexts of a trie."""

import numpy as np
import pytest

import keras_nplm.models.ngrams.tables as tables
from keras_nplm.models.ngrams.tables import ContextTrie, find, sort_with_places


@pytest.mark.parametrize("number", [0, 9, tables.SORT_FROM - 1, tables.SORT_FROM])
def test_find_returns_the_place_of_each_key(number):
    random = np.random.default_rng(number)
    keys = np.unique(random.integers(0, 300, 200))
    wanted = random.integers(-2, 303, number)  # below the first key, and above the last
    place = {key: i for i, key in enumerate(keys.tolist())}
    assert find(keys, wanted).tolist() == [place.get(key, -1) for key in wanted.tolist()]
    assert find(keys[:0], wanted).tolist() == [-1] * number


@pytest.mark.parametrize(
    ("least", "limit"),
    [
        pytest.param(0, 50, id="equal values"),
        pytest.param(-(1 << 56), 1 << 56, id="all that are packed"),
        pytest.param(0, (1 << 56) + 1, id="too large to be packed"),
        pytest.param(-(1 << 56) - 1, 0, id="too small to be packed"),
    ],
)
def test_sorted_values_come_with_their_places(least, limit):
    values = np.random.default_rng(0).integers(least, limit, 100)  # places of 7 bits
    values[7] = least
    values[8] = limit - 1
    in_order, places = sort_with_places(values)
    np.testing.assert_array_equal(in_order, np.sort(values))
    np.testing.assert_array_equal(values[places], in_order)
    np.testing.assert_array_equal(np.sort(places), np.arange(100))


def test_walk_ends_at_padding_and_at_the_start_of_a_sentence():
    trie = ContextTrie(
        9,
        [np.array([4 * 9 + 0, 4 * 9 + 2, 4 * 9 + 5, 5 * 9 + 2]), np.array([1 * 9 + 2, 2 * 9 + 6])],
    )
    contexts = np.array([[6, 5, 4], [0, 5, 4], [2, 2, 4], [6, 0, 4], [6, 5, 0], [4, 4, 4]])
    steps = [(rows.tolist(), nodes.tolist()) for rows, nodes in trie.walk(contexts)]
    assert steps == [([0, 1, 2, 3, 5], [4] * 5), ([0, 1, 2], [2, 2, 1]), ([0], [1])]
    assert trie.words(3).tolist() == [[2, 2, 4], [6, 5, 4]] and trie.parents(3).tolist() == [1, 2]
