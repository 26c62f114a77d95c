"""Share changes of word vectors among words with common character n-grams, so that rare words learn
from frequent ones.
"""

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import SPECIALS
from keras_nplm.training.weight_average import round_interval

UPDATES_PER_SHARING = 100  # at least: 20 to 400 updates give one perplexity
_LENGTHS = range(2, 7)  # of n-grams: 3 to 5 gain half a percent less


class SharedSpelling:
    """What the vectors of similar words learn from each other: a sum over common character n-grams.

        C <- C + g A A^T (C - C')    after every s updates, C' is C after the s before

    A has a row for each word and a column for each n-gram of 2 to 6 characters that two words have,
    with `<` and `>` at the ends of a word. A_wj is n^{-1/2} if word w has n-gram j, n of all. With
    SGD this trains the vectors C + A G, whose G is updated late. The network keeps C alone.
    `interval` is s, a multiple of the updates that `fit` executes at once.

    Reference: Bojanowski, Grave, Joulin & Mikolov (2017), Enriching word vectors with subword
    information.
    """

    def __init__(self, model: keras.Model, words: Sequence[str], share: float):
        self.C = model.embed.C
        self.share = share
        self.interval = round_interval(UPDATES_PER_SHARING, model)
        self.before = tf.Variable(self.C.numpy(), trainable=False)
        self._A_transposed = _weigh_ngrams(words, self.C.dtype)

    def update(self) -> None:
        """Share what C has changed since the last call."""
        C = tf.convert_to_tensor(self.C.value)
        change = C - self.before
        of_ngrams = tf.sparse.sparse_dense_matmul(self._A_transposed, change)
        of_words = tf.sparse.sparse_dense_matmul(self._A_transposed, of_ngrams, adjoint_a=True)
        C += self.share * of_words
        self.C.assign(C)
        self.before.assign(C)


def _weigh_ngrams(words: Sequence[str], dtype: str) -> tf.SparseTensor:
    """Return the transpose of A."""
    owners: dict[str, list[int]] = {}
    numbers = np.ones(len(words))
    for place, word in enumerate(words[len(SPECIALS) :], len(SPECIALS)):
        ngrams = _list_ngrams(word)
        numbers[place] = len(ngrams)
        for ngram in ngrams:
            owners.setdefault(ngram, []).append(place)
    shared = [places for places in owners.values() if len(places) > 1]
    pairs = [(row, place) for row, places in enumerate(shared) for place in places]
    indices = np.array(pairs, np.int64).reshape(-1, 2)
    values = tf.constant(numbers[indices[:, 1]] ** -0.5, dtype)
    return tf.SparseTensor(indices, values, (len(shared), len(words)))


def _list_ngrams(word: str) -> list[str]:
    """Return the distinct n-grams of a word with its ends, in their order."""
    marked = f"<{word}>"
    ngrams = (marked[i : i + n] for n in _LENGTHS for i in range(len(marked) - n + 1))
    return [*dict.fromkeys(ngrams)]
