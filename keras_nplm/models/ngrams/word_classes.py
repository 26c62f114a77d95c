"""Word classes by the exchange algorithm: words that are preceded and followed alike come together."""

import os
from collections.abc import Callable

import numpy as np

from keras_nplm.data.ngram_arrays import predicted_ids
from keras_nplm.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_text, replace_file
from keras_nplm.models.ngrams.counts import count_ngrams

NO_CLASS = 1  # of words that a file of classes lacks: as a context it is never seen, so that a model backs off from it
FIRST_CLASS = EOS_ID + 1
_MOST_SWEEPS = 12
_ENOUGH = 0.005  # the share of words moved in a sweep below which the classes count as settled


def exchange_classes(
    ids: np.ndarray,
    vocabulary_size: int,
    num_classes: int,
    boundary: str = "sentence",
    *,
    start: np.ndarray | None = None,
    after_sweep: Callable[[np.ndarray, int], None] | None = None,
) -> np.ndarray:
    """Put words into classes that maximise the likelihood of the text under a class bigram model.

        ln L = sum_gh f(N(g, h)) - sum_g f(N(g, •)) - sum_h f(N(•, h)) + sum_w f(N(w)),    f(x) = x ln x

    Words are taken by falling frequency, and each is moved to the class where ln L is highest, sweep after sweep, until
    few move. A sweep costs as many operations as there are bigram types times classes.

    Args:
        ids: int32 [T], each sentence closed by `</s>`.
        vocabulary_size: |V|.
        num_classes: how many classes.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        start: classes to begin with, as this function returns them: to go on with sweeps that were interrupted.
            Default: the most frequent words have a class each, and the last class has the rest.
        after_sweep: called with the classes and the number of words moved after each sweep.

    Returns:
        the class of each word, int32 [|V|], 4 to `num_classes` + 3; `<pad>`, `<s>` and `</s>` keep 0, 2 and 3, so that
        a text of classes is one of ids to whatever counts n-grams. Words that the text lacks are in the class that has
        most of the rarest words: as contexts they act like those.

    Raises:
        InputError: an option is out of range, or the text is empty.

    Example:

    >>> text = np.array([4, 6, 5, 7, 4, 7, 5, 6, 4, 6, 5, 7, 4, 7, 5, 6, 3])  # 4 and 5 stand before 6 and 7
    >>> classes = exchange_classes(text, vocabulary_size=8, num_classes=2, boundary="stream")
    >>> bool(classes[4] == classes[5] != classes[6] == classes[7])
    True

    Reference: Kneser & Ney (1993), Improved clustering techniques for class-based statistical language modelling;
    Martin, Liermann & Ney (1998), Algorithms for bigram and trigram word clustering.
    """
    counted = count_ngrams(ids, vocabulary_size, 2, boundary)
    by_frequency = counted.keys[0][np.argsort(-counted.counts[0], kind="stable")]
    by_frequency = by_frequency[by_frequency != EOS_ID]
    if not 1 <= num_classes <= len(by_frequency):
        raise InputError(f"`num_classes` must be 1 to {len(by_frequency)}, the words seen. Received: {num_classes}.")
    if start is not None and start.max() >= num_classes + FIRST_CLASS:
        raise InputError(f"There are more than {num_classes} classes to begin with: remove them to begin anew.")
    if start is None:
        start = _without_classes(vocabulary_size)
        start[by_frequency] = np.minimum(np.arange(len(by_frequency)), num_classes - 1) + FIRST_CLASS
    left, right = np.divmod(counted.keys[1], vocabulary_size)
    exchange = _Exchange(start, left, right, counted.counts[1], num_classes + FIRST_CLASS)
    for _ in range(_MOST_SWEEPS):
        moved = sum(map(exchange.move, by_frequency.tolist()))
        if after_sweep:
            after_sweep(exchange.classes, moved)
        if moved <= _ENOUGH * len(by_frequency):
            break
    is_word = counted.keys[0] != EOS_ID
    rarest = counted.keys[0][is_word & (counted.counts[0] == counted.counts[0][is_word].min())]
    lacking = np.setdiff1d(predicted_ids(vocabulary_size, boundary), [*counted.keys[0], EOS_ID])
    exchange.classes[lacking] = np.bincount(exchange.classes[rarest]).argmax()
    return exchange.classes


def _without_classes(vocabulary_size: int) -> np.ndarray:
    """The classes of words before any word has one."""
    classes = np.full(vocabulary_size, NO_CLASS, np.int32)
    classes[[PAD_ID, BOS_ID, EOS_ID]] = PAD_ID, BOS_ID, EOS_ID
    return classes


class _Exchange:
    """The class bigram counts N(g, h), and what moving a word between classes does to them and to ln L."""

    def __init__(self, classes: np.ndarray, left: np.ndarray, right: np.ndarray, counts: np.ndarray, number: int):
        self.classes = classes.astype(np.int32)
        counts = counts.astype(np.float64)
        words = np.arange(len(classes) + 1)
        by_right = np.argsort(right, kind="stable")
        self.after = _Neighbours(right, counts, np.searchsorted(left, words))
        self.before = _Neighbours(left[by_right], counts[by_right], np.searchsorted(right[by_right], words))
        pairs = self.classes[left].astype(np.int64) * number + self.classes[right]
        self.bigrams = np.bincount(pairs, counts, minlength=number * number).reshape(number, number)
        self.bigrams_t = self.bigrams.T.copy()  # both ways round, so that whichever is gathered lies together
        self.f, self.f_t = _f(self.bigrams), _f(self.bigrams_t)
        self.totals = np.stack([self.bigrams.sum(axis=1), self.bigrams.sum(axis=0)])

    def move(self, word: int) -> bool:
        """Put a word into its best class; True if it is another than before."""
        old = self.classes[word]
        after = self.after.by_class(word, self.classes, len(self.bigrams))
        before = self.before.by_class(word, self.classes, len(self.bigrams))
        itself = self.after.count(word, word)
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

    def _add(self, c: int, after: np.ndarray, before: np.ndarray, itself: float, size: np.ndarray) -> None:
        self.bigrams[c] += after
        self.bigrams[:, c] += before
        self.bigrams[c, c] += itself
        self.bigrams_t[:, c], self.bigrams_t[c] = self.bigrams[c], self.bigrams[:, c]
        row, column = _f(self.bigrams[c]), _f(self.bigrams_t[c])
        self.f[c], self.f[:, c] = row, column
        self.f_t[c], self.f_t[:, c] = column, row
        self.totals[:, c] += size[:, 0]

    def _gains(self, after: np.ndarray, before: np.ndarray, itself: float, size: np.ndarray) -> np.ndarray:
        """What ln L gains from a word that is in no class when it joins each class."""
        gains = -(_f(self.totals + size) - _f(self.totals)).sum(axis=0)
        for counts, bigrams, f in ((after, self.bigrams_t, self.f_t), (before, self.bigrams, self.f)):
            neighbours = np.flatnonzero(counts)
            joined = bigrams[neighbours] + counts[neighbours, None]  # [neighbouring classes, classes]
            gains += np.sum(joined * np.log(joined), axis=0) - f[neighbours].sum(axis=0)
        # where the neighbour is the class itself, both ways and `itself` come together
        diagonal = self.bigrams.diagonal()
        gains += _f(diagonal + after + before + itself) + _f(diagonal) - _f(diagonal + after) - _f(diagonal + before)
        gains[:FIRST_CLASS] = -np.inf
        return gains


class _Neighbours:
    """The words on one side of each word, with counts: those of word w from `begin[w]` to `begin[w + 1]`."""

    def __init__(self, words: np.ndarray, counts: np.ndarray, begin: np.ndarray):
        self.words, self.counts, self.begin = words, counts, begin.tolist()

    def by_class(self, word: int, classes: np.ndarray, number: int) -> np.ndarray:
        part = slice(self.begin[word], self.begin[word + 1])
        return np.bincount(classes[self.words[part]], self.counts[part], minlength=number)

    def count(self, word: int, other: int) -> float:
        part = slice(self.begin[word], self.begin[word + 1])
        place = np.searchsorted(self.words[part], other)
        found = self.words[part][place : place + 1] == other
        return float(self.counts[part][place]) if found.any() else 0.0


def _f(x: np.ndarray) -> np.ndarray:
    return x * np.log(np.maximum(x, 1))


def save_classes(path: str | os.PathLike, classes: np.ndarray, vocabulary: Vocabulary) -> None:
    """Write the classes of words to `path`, a line a word that has one: word, tab, class from 0."""
    lines = (f"{vocabulary.words[i]}\t{classes[i] - FIRST_CLASS}\n" for i in np.flatnonzero(classes >= FIRST_CLASS))
    with replace_file(path) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8", newline="\n")


def load_classes(path: str | os.PathLike, vocabulary: Vocabulary) -> np.ndarray:
    """Read the classes of a vocabulary's words that `save_classes` or `mkcls` wrote, as `exchange_classes` gives them.

    Raises:
        InputError: the file is absent, not UTF-8 or malformed, or has no word of the vocabulary.

    Example:

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "word_classes.tsv"
    >>> _ = path.write_text("the\\t0\\na\\t0\\ncat\\t1\\n")
    >>> load_classes(path, Vocabulary(["the", "cat", "sat"]))
    array([0, 1, 2, 3, 4, 5, 1], dtype=int32)
    """
    place = {word: i for i, word in enumerate(vocabulary.words)}
    classes = _without_classes(len(vocabulary))
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        word, _, name = line.partition("\t")
        if not name.isdecimal() or len(name) > 18 or int(name) > len(vocabulary):
            expected = f"a word, a tab and the number of its class, {len(vocabulary)} at most"
            raise InputError(f"{path}, line {number}: expected {expected}; got {line[:80]!r}.")
        i = place.get(word, PAD_ID)
        if i not in (PAD_ID, BOS_ID, EOS_ID):
            classes[i] = int(name) + FIRST_CLASS
    if not (classes >= FIRST_CLASS).any():
        raise InputError(f"{path} has no word of the vocabulary: name the word classes of this text.")
    return classes
