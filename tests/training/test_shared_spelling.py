"""Changes of C are shared among words with common character n-grams, as vectors C + A G would."""

from unittest.mock import Mock

import keras
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from keras_nplm.data.ids import SPECIALS
from keras_nplm.training.shared_spelling import SharedSpelling

WORDS = st.lists(st.text("abé-", min_size=1, max_size=9), min_size=1, max_size=12, unique=True)


def list_ngrams(word: str) -> set[str]:
    marked = f"<{word}>"
    places = range(len(marked) + 1)
    return {marked[i:j] for i in places for j in places if 2 <= j - i <= 6}


def weigh_ngrams(words: list[str]) -> np.ndarray:
    """Return A."""
    columns = sorted(set().union(*map(list_ngrams, words)))
    A = np.zeros((len(words), len(columns)))
    for row, word in enumerate(words):
        ngrams = list_ngrams(word)
        for ngram in ngrams:
            A[row, columns.index(ngram)] = len(ngrams) ** -0.5
    return A[:, np.count_nonzero(A, axis=0) > 1]


def build(words: list[str], C: np.ndarray, share: float) -> tuple[keras.Variable, SharedSpelling]:
    variable = keras.Variable(C)
    model = Mock(embed=Mock(C=variable), steps_per_execution=32)
    return variable, SharedSpelling(model, [*SPECIALS, *words], share)


@given(WORDS, st.integers(0, 99))
def test_words_share_changes_by_their_common_ngrams(words, seed):
    """C <- C + g A A^T (C - C'), of the n-grams that two words have; special ones share none."""
    rng = np.random.default_rng(seed)
    first = len(SPECIALS)
    expected = rng.normal(size=(first + len(words), 3))
    C, shared = build(words, expected.astype(np.float32), 0.5)
    assert shared.interval == 128
    A = weigh_ngrams(words)
    for _ in range(2):
        change = rng.normal(size=expected.shape)
        C.assign(C + change)
        shared.update()
        expected += change
        expected[first:] += 0.5 * A @ A.T @ change[first:]
        np.testing.assert_allclose(C, expected, rtol=1e-4, atol=1e-4)


def test_sharing_after_each_update_trains_vectors_with_ngrams():
    """SGD on C + A G, G from 0 with g times the rate, has the same vectors C + A G."""
    words = ["nation", "nations", "national", "station"]
    rng = np.random.default_rng(1)
    start = rng.normal(size=(len(SPECIALS) + 4, 2)).astype(np.float32)
    C, shared = build(words, start, 0.3)
    A = weigh_ngrams(words)
    own, G = start[len(SPECIALS) :].astype(float), np.zeros((A.shape[1], 2))
    for _ in range(5):
        vectors = own + A @ G
        gradient = np.tanh(vectors[::-1])  # of any loss
        own -= 0.1 * gradient
        G -= 0.3 * 0.1 * A.T @ gradient
        step = np.zeros_like(start)
        step[len(SPECIALS) :] = np.tanh(C.numpy()[len(SPECIALS) :][::-1])
        C.assign(C - 0.1 * step)
        shared.update()
    np.testing.assert_allclose(C.numpy()[len(SPECIALS) :], own + A @ G, rtol=1e-4)
    assert np.abs(A @ G).max() > 0.1
