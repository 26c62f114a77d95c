import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from keras_nplm import NPLM, InputError, LanguageModel, Vocabulary
from keras_nplm.ngrams import kneser_ney
from keras_nplm.word_vectors import nearest, word_map

_SMALL = st.floats(-2, 2, width=16)
_MATRICES = st.tuples(st.integers(1, 8), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=_SMALL)
)


def _cosine(left, right) -> float:
    length = math.hypot(*left) * math.hypot(*right)
    return sum(a * b for a, b in zip(left, right, strict=True)) / length if length else 0.0


@given(_MATRICES, st.integers(1, 10), st.data())
def test_nearest_finds_the_largest_cosines(vectors, top_k, data):
    row = data.draw(st.integers(0, len(vectors) - 1))
    neighbours, cosines = nearest(vectors, [row], top_k)
    expected = {i: _cosine(vectors[i].tolist(), vectors[row].tolist()) for i in range(len(vectors)) if i != row}
    assert neighbours.shape == cosines.shape == (1, min(top_k, len(vectors) - 1))
    assert len({*neighbours[0], row}) == neighbours.size + 1
    np.testing.assert_allclose(cosines[0], [expected[i] for i in neighbours[0]], atol=1e-6)
    np.testing.assert_allclose(cosines[0], sorted(expected.values(), reverse=True)[:top_k], atol=1e-6)


def test_nearest_takes_equals_by_row_and_refuses_what_is_out_of_range():
    vectors = np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    assert nearest(vectors, [2, 0], 9)[0].tolist() == [[0, 1, 3], [1, 2, 3]]
    with pytest.raises(InputError, match="`top_k` must be 1 or more. Received: 0"):
        nearest(vectors, [0], 0)
    for row in (-1, 4):
        with pytest.raises(InputError, match="`rows` must be 0 to 3"):
            nearest(vectors, [row], 1)


def _clusters(seed: int, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of random lengths about orthogonal directions, and whose each is."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    vectors = np.eye(len(sizes), 12)[labels] + rng.normal(0, 0.05, (len(labels), 12))
    return vectors * rng.uniform(0.1, 10, (len(labels), 1)), labels


@pytest.mark.parametrize("sizes", [(40, 40), (6, 30), (10,) * 10])
def test_the_map_keeps_groups_apart(sizes):
    """Groups of directions, not of lengths, and more than two components part: a word's neighbour is of its group."""
    vectors, labels = _clusters(0, sizes)
    places = word_map(vectors)
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(axis=1)] == labels).all()
    np.fill_diagonal(distances, 0)
    same = labels[:, None] == labels
    assert distances[~same].min() > 0.5 * np.median(distances[same])
    assert np.abs(places.mean(axis=0)).max() < 1e-9


def test_the_map_is_the_same_each_time_and_whatever_the_lengths():
    vectors, _ = _clusters(1, (20, 20))
    places = word_map(vectors)
    np.testing.assert_array_equal(places, word_map(vectors.copy()))
    np.testing.assert_array_equal(places, word_map(vectors * 4))


@settings(max_examples=15, deadline=None)
@given(_MATRICES)
def test_the_map_of_anything_is_finite(vectors):
    """One vector, two, zeros, duplicates, one component."""
    places = word_map(vectors)
    assert places.shape == (len(vectors), 2) and np.isfinite(places).all()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_map_of_few_vectors_has_a_place_for_each(number):
    assert len(np.unique(word_map(np.eye(number)).round(3), axis=0)) == number


def test_equal_vectors_lie_together():
    assert np.ptp(word_map(np.ones((50, 3))), axis=0).max() < 1e-6
    places = word_map(np.repeat(np.random.default_rng(0).normal(size=(10, 4)), 2, axis=0))
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (distances.argmin(axis=1) == np.arange(20) + np.tile([1, -1], 10)).all()


@pytest.mark.parametrize("vectors", [np.zeros((0, 3)), np.array([[1.0, np.nan]])])
def test_the_map_refuses_what_has_no_place(vectors):
    with pytest.raises(InputError, match="`vectors` must be finite, and 1 or more"):
        word_map(vectors)


def test_the_nearest_words_are_neither_special_nor_the_word_itself():
    words = ["cat", "dog", "<b>", "sat"]
    model = NPLM(8, order=3, embedding_dim=2, hidden_units=3)
    model.embed.C.assign([[1, 0], [1, 0], [1, 0], [1, 0], [1, 0], [2, 0.2], [0, 1], [-1, 0]])
    language_model = LanguageModel(model, Vocabulary(words), "words", "sentence")
    expected = [("dog", 2 / math.hypot(2, 0.2)), ("<b>", 0.0), ("sat", -1.0)]
    found = language_model.nearest("cat")
    assert [word for word, _ in found] == [word for word, _ in expected]
    assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    assert language_model.nearest("<b>", top_k=1)[0][0] == "dog"
    for word in ("Cat", "<unk>", "</s>", ""):
        with pytest.raises(InputError, match="The vocabulary has no word"):
            language_model.nearest(word)
    with pytest.raises(InputError, match="`top_k` must be 1 or more"):
        language_model.nearest("cat", top_k=0)
    ngrams = kneser_ney(np.array([4, 5, 3, 4, 7, 3]), 8, 2, "sentence")
    with pytest.raises(InputError, match="no network: it has no word vectors"):
        LanguageModel(ngrams, Vocabulary(words), "words", "sentence").nearest("cat")
