"""Spelling model of out-of-vocabulary words: P(spelling | <unk>), a Kneser-Ney model of
characters.
"""

import functools
import heapq
import itertools
import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.arguments import check_lines
from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.data.text_counts import read_word_counts, write_word_counts
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.models.base import row_blocks
from keras_nplm.models.ngrams.backoff import BackoffModel
from keras_nplm.models.ngrams.kneser_ney import kneser_ney

SPELLING_FILE = "spelling.tsv"
# of the character model: chosen on validation text in English, German, Russian and Chinese
ORDER = 6
MAX_WORDS = 1 << 16  # that a spelling model learns from
_MAX_COUNT = 16  # how often a word is repeated in the training text of the spelling model at most
_CODE_POINTS = 0x110000 - 0x800  # of Unicode, without surrogates
_BLOCK_SIZE = 1 << 18  # characters whose n-grams are gathered at a time


class SpellingModel:
    """Distribution over the spellings of out-of-vocabulary words, so that a word model pays for all
    of its text.

        P(c_1 … c_k | <unk>) = P(</s> | c_{k-4} … c_k) prod_i P(c_i | c_{i-5} … c_{i-1})

    P is a Kneser-Ney model of order 6 over characters. A rare character, which at most one training
    word has, is an escape and then uniformly one of all other Unicode code points. The
    probabilities of all strings sum to 1.

    Args:
        counts: str to int, words with their counts. `from_vocabulary` learns from the rare words
            of a vocabulary.

    Raises:
        InputError: there is no word, or one without characters.

    Example: bits per character for a model that was trained in Python

    >>> from keras_nplm import LanguageModel, Uniform, Vocabulary
    >>> vocabulary = Vocabulary(["the", "value", "of"])
    >>> spelling = SpellingModel.from_vocabulary(vocabulary)
    >>> language_model = LanguageModel(Uniform(7), vocabulary, "words", spelling=spelling)
    >>> language_model.spelling.log_prob(["vale", "zxq"]).round(1).tolist()
    [-45.9, -46.8]

    Reference: Brown et al. (1992), An estimate of an upper bound for the entropy of English.
    """

    def __init__(self, counts: Mapping[str, int]):
        if not counts or "" in counts:
            raise InputError(
                f"A spelling model needs words of 1 character or more. Received: {counts!r:.60}."
            )
        self.counts = dict(counts)

    @classmethod
    def from_vocabulary(
        cls, vocabulary: Vocabulary, unknown_words: Iterable[Mapping[str, int]] = ()
    ) -> "SpellingModel":
        """Learn from 65,536 words: frequent out-of-vocabulary words with their counts, then the
        vocabulary's rarest.
        """
        counts: Counter[str] = Counter()
        for part in unknown_words:
            counts.update(part)
            # bounded memory: the frequent words of a large text stay
            if len(counts) > 16 * MAX_WORDS:
                counts = Counter(dict(_select(counts)))
        chosen = dict(_select(counts))
        num_rare = MAX_WORDS - len(chosen)
        rarest_first = reversed(vocabulary.words[len(SPECIALS) :])
        for word in itertools.islice(rarest_first, num_rare):
            chosen.setdefault(word, 1)
        return cls(chosen)

    @functools.cached_property
    def _characters(self) -> np.ndarray:
        """The code points that are no escape, sorted, int64 [C]."""
        words_with = Counter(character for word in self.counts for character in set(word))
        chosen = [character for character, number in words_with.items() if number > 1]
        if not chosen:
            chosen = list(words_with)
        return np.sort(np.array([*map(ord, chosen)], np.int64))

    @functools.cached_property
    def _model(self) -> BackoffModel:
        repeated: list[str] = []
        for word, count in self.counts.items():
            repeated += [word] * min(count, _MAX_COUNT)
        size = len(SPECIALS) + len(self._characters)
        return kneser_ney(self._encode(repeated), size, ORDER, "sentence")

    def _encode(self, words: Sequence[str]) -> np.ndarray:
        """Return the ids of characters, each word closed by `</s>`; an escape is `<unk>`."""
        text = "\0".join([*words, ""]).encode("utf-32-le", "surrogatepass")
        points = np.frombuffer(text, "<u4").astype(np.int64)
        place = np.minimum(np.searchsorted(self._characters, points), len(self._characters) - 1)
        ids = np.where(self._characters[place] == points, place + len(SPECIALS), UNK_ID)
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        ids[ends] = EOS_ID
        return ids.astype(np.int32)

    def log_prob(self, words: Sequence[str]) -> np.ndarray:
        """Return ln P(spelling | <unk>) of each word, float64 [N], in nats."""
        words = list(check_lines(words, "words"))
        result = np.zeros(len(words))
        if not len(words):
            return result
        ids = self._encode(words)
        is_end = ids == EOS_ID
        owners = np.cumsum(is_end) - is_end  # the number of the word of each character
        tokens, positions = ngram_positions(ids, ORDER, "sentence")
        escape = math.log(_CODE_POINTS - len(self._characters))
        for block in row_blocks(len(positions), _BLOCK_SIZE):
            ngrams = gather_ngrams(tokens, positions[block], ORDER)
            log_prob = self._model.log_prob(ngrams[:, :-1], ngrams[:, -1]).astype(np.float64)
            log_prob -= (ngrams[:, -1] == UNK_ID) * escape
            result += np.bincount(owners[block], log_prob, len(words))
        return result

    def sum_log_prob(self, counts: Mapping[str, int]) -> float:
        """Return the sum of count · ln P(spelling | <unk>) over words, in nats."""
        numbers = np.fromiter(counts.values(), np.float64, len(counts))
        return float(self.log_prob([*counts]) @ numbers)

    def save(self, path: str | os.PathLike) -> None:
        """Write the training words with their counts. `load` estimates the same model again."""
        write_word_counts(path, self.counts, {})

    @classmethod
    def load(cls, path: str | os.PathLike) -> "SpellingModel":
        """Read what `save` wrote."""
        counts: dict[str, int] = {}
        for part in read_word_counts(path):
            counts |= part
        return cls(counts)


def load_spelling(directory: Path) -> SpellingModel | None:
    """Load the spelling model of a model directory; None if its tokens spell every text."""
    path = directory / SPELLING_FILE
    return SpellingModel.load(path) if path.is_file() else None


def _select(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Select the most frequent words; among equally frequent words the first in the order of
    characters.
    """
    return heapq.nsmallest(MAX_WORDS, counts.items(), key=lambda pair: (-pair[1], pair[0]))
