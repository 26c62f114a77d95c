"""Word classes (clusters) by the exchange algorithm: words with similar neighbours share a
class.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, check_integer
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import read_lines
from keras_nplm.models.ngrams.counts import count_ngrams

# of words without a line in a file of classes; models back off from this context, which is never
# seen
NO_CLASS = 1
FIRST_CLASS = EOS_ID + 1
MAX_SWEEPS = 12
CONVERGED = 0.005  # share of words moved in a sweep, at which the classes are stable


def exchange_classes(
    ids: np.ndarray,
    vocabulary_size: int,
    num_classes: int,
    boundary: str = "sentence",
    *,
    start: np.ndarray | None = None,
    max_sweeps: int = MAX_SWEEPS,
    after_sweep: Callable[[np.ndarray, int, int], None] | None = None,
) -> np.ndarray:
    """Cluster words into classes that maximise the likelihood of the text under a class bigram
    model.

        ln L = sum_gh f(N(g, h)) - sum_g f(N(g, •)) - sum_h f(N(•, h)) + sum_w f(N(w)),
        f(x) = x ln x

    Each sweep moves the words, by falling frequency, to the class with the highest ln L, until few
    words move. The classes, int [V], are those of `class_based`; special tokens have classes of
    their own.

    A search can be interrupted: `after_sweep` gets the classes, the number of words that moved, and
    the number of sweeps left, 0 at the end. `start` and `max_sweeps` continue from there.

    >>> cat, dog, eats, runs = 4, 5, 6, 7
    >>> sentences = [[cat, eats, 3], [dog, eats, 3], [cat, runs, 3], [dog, runs, 3]]
    >>> classes = exchange_classes(np.ravel(sentences), vocabulary_size=8, num_classes=2)
    >>> bool(classes[cat] == classes[dog]), bool(classes[cat] == classes[eats])
    (True, False)

    Reference: Kneser & Ney (1993), Improved clustering techniques for class-based statistical
    language modelling; Martin, Liermann & Ney (1998), Algorithms for bigram and trigram word
    clustering.
    """
    counts = count_ngrams(ids, vocabulary_size, 2, boundary)
    by_frequency = counts.keys[0][np.argsort(-counts.counts[0], kind="stable")]
    by_frequency = by_frequency[by_frequency != EOS_ID]
    has_words = len(by_frequency) > 0
    fix = "pass the token ids of a text."
    check_argument("ids", has_words, "ids of one word or more", "a text without words", fix)
    check_integer("num_classes", num_classes, 1, most=len(by_frequency))
    if start is None:
        # a class for each of the most frequent words, and the last one for all others
        start = _empty_classes(vocabulary_size)
        numbers = np.minimum(np.arange(len(by_frequency)), num_classes - 1)
        start[by_frequency] = numbers + FIRST_CLASS
    first, second = np.divmod(counts.keys[1], vocabulary_size)
    exchange = _Exchange(start, first, second, counts.counts[1], num_classes + FIRST_CLASS)
    left = max_sweeps
    while left:
        moved = sum(map(exchange.move, by_frequency.tolist()))
        is_stable = moved <= CONVERGED * len(by_frequency)
        left = 0 if is_stable else left - 1
        if after_sweep:
            after_sweep(exchange.classes, moved, left)
    classes = exchange.classes
    # words that the text does not have get the class that most of the rarest words have
    is_word = counts.keys[0] != EOS_ID
    least = counts.counts[0][is_word].min()
    rarest = counts.keys[0][is_word & (counts.counts[0] == least)]
    unseen = np.setdiff1d(predicted_ids(vocabulary_size, boundary), [*counts.keys[0], EOS_ID])
    classes[unseen] = np.bincount(classes[rarest]).argmax()
    return classes


def _empty_classes(vocabulary_size: int) -> np.ndarray:
    """Return classes for a vocabulary in which no word has a class yet."""
    classes = np.full(vocabulary_size, NO_CLASS, np.int32)
    # each is a class of its own
    for special in (PAD_ID, BOS_ID, EOS_ID):
        classes[special] = special
    return classes


class _Neighbours(NamedTuple):
    """The words before, or those after, each word w, with their counts, from begin[w] to
    begin[w + 1].
    """

    words: np.ndarray
    counts: np.ndarray
    begin: list[int]

    def count_classes(self, word: int, classes: np.ndarray, number: int) -> np.ndarray:
        """Return how often a neighbour of the word has each class, float64 [number]."""
        part = slice(self.begin[word], self.begin[word + 1])
        return np.bincount(classes[self.words[part]], self.counts[part], minlength=number)


class _Exchange:
    """Class bigram counts N(g, h), updated as words move between classes, and the gain in ln L of
    each move.
    """

    def __init__(
        self,
        classes: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        counts: np.ndarray,
        number: int,
    ):
        self.classes = classes.astype(np.int32)
        counts = counts.astype(np.float64)
        words = np.arange(len(classes) + 1)
        by_right = np.argsort(right, kind="stable")
        self._after = _Neighbours(right, counts, np.searchsorted(left, words).tolist())
        self._before = _Neighbours(
            left[by_right], counts[by_right], np.searchsorted(right[by_right], words).tolist()
        )
        is_twice = left == right
        self.itself = np.bincount(left[is_twice], counts[is_twice], minlength=len(classes))
        pairs = self.classes[left].astype(np.int64) * number + self.classes[right]
        self.bigrams = np.bincount(pairs, counts, minlength=number * number).reshape(number, number)
        self.bigrams_t = self.bigrams.T.copy()  # both layouts, so that gathered rows are contiguous
        self.f = _f(self.bigrams)
        self.f_t = _f(self.bigrams_t)
        self.totals = np.stack([self.bigrams.sum(axis=1), self.bigrams.sum(axis=0)])

    def move(self, word: int) -> bool:
        """Move a word to its best class; return True if that class differs from the old one."""
        old = self.classes[word]
        after = self._after.count_classes(word, self.classes, len(self.bigrams))
        before = self._before.count_classes(word, self.classes, len(self.bigrams))
        itself = self.itself[word]
        size = np.array([[after.sum()], [before.sum()]])
        after[old] -= itself
        before[old] -= itself
        self._add(old, -after, -before, -itself, -size)
        gains = self._gains(after, before, itself, size)
        best = int(np.argmax(gains))
        if gains[best] <= gains[old] + 1e-9:
            best = old
        self._add(best, after, before, itself, size)
        self.classes[word] = best
        return best != old

    def _add(
        self, c: int, after: np.ndarray, before: np.ndarray, itself: float, size: np.ndarray
    ) -> None:
        """Add the counts of a word to those of a class."""
        self.bigrams[c] += after
        self.bigrams[:, c] += before
        self.bigrams[c, c] += itself
        self.bigrams_t[:, c] = self.bigrams[c]
        self.bigrams_t[c] = self.bigrams[:, c]
        row = _f(self.bigrams[c])
        column = _f(self.bigrams_t[c])
        self.f[c] = row
        self.f[:, c] = column
        self.f_t[c] = column
        self.f_t[:, c] = row
        self.totals[:, c] += size[:, 0]

    def _gains(
        self, after: np.ndarray, before: np.ndarray, itself: float, size: np.ndarray
    ) -> np.ndarray:
        """Return the gain in ln L when a word outside all classes is added to each class."""
        gains = -(_f(self.totals + size) - _f(self.totals)).sum(axis=0)
        for counts, bigrams, f in (
            (after, self.bigrams_t, self.f_t),
            (before, self.bigrams, self.f),
        ):
            neighbours = np.flatnonzero(counts)
            # [neighbouring classes, classes]
            total = bigrams[neighbours] + counts[neighbours, None]
            gains += np.sum(total * np.log(total), axis=0) - f[neighbours].sum(axis=0)
        # where a class is its own neighbour, `after`, `before` and `itself` fall into one count
        diagonal = self.bigrams.diagonal()
        gains += (
            _f(diagonal + after + before + itself)
            + _f(diagonal)
            - _f(diagonal + after)
            - _f(diagonal + before)
        )
        gains[:FIRST_CLASS] = -np.inf
        return gains


def _f(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1))


def save_classes(path: str | os.PathLike, classes: np.ndarray, vocabulary: Vocabulary) -> None:
    """Write the classes of words to `path`: one line for each word with a class, the word, a tab,
    the class from 0.
    """
    lines = (
        f"{vocabulary.words[i]}\t{classes[i] - FIRST_CLASS}\n"
        for i in np.flatnonzero(classes >= FIRST_CLASS)
    )
    with replace_file(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8", newline="\n")


def load_classes(path: str | os.PathLike, vocabulary: Vocabulary) -> np.ndarray:
    """Read the classes of words from a file of `save_classes` or `mkcls`, in the form of
    `exchange_classes`.
    """
    place = {word: i for i, word in enumerate(vocabulary.words)}
    classes = _empty_classes(len(vocabulary))
    for number, line in enumerate(read_lines(path), start=1):
        word, _, name = line.partition("\t")
        # more than 18 digits may not fit into an int64
        if not name.isdecimal() or len(name) > 18 or int(name) > len(vocabulary):
            raise InputError(
                f"{path}, line {number}: expected a word, a tab and the number of its class, at "
                f"most {len(vocabulary)}. Received: {line[:80]!r}. Fix the line."
            )
        i = place.get(word, PAD_ID)
        if i not in (PAD_ID, BOS_ID, EOS_ID):
            classes[i] = int(name) + FIRST_CLASS
    if not (classes >= FIRST_CLASS).any():
        raise InputError(
            f"{path} must have classes of words in the vocabulary. "
            "Received: classes of other words only. Fix: name the word classes of this text."
        )
    return classes
