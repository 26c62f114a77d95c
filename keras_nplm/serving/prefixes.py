"""The unfinished last word of texts, and the vocabulary words with a prefix, as TensorFlow
operations, as in Python.
"""

from collections import Counter

import numpy as np
import tensorflow as tf

from keras_nplm.data.clean_ops import clean_texts
from keras_nplm.data.prefixes import BEFORE_WORD, PrefixIndex, WordIndex
from keras_nplm.data.text_ops import (
    change_case,
    character_ranges,
    decode_texts,
    find_upper_texts,
    store_array,
)
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.normalisation import lower, upper
from keras_nplm.language_model.word_pieces import is_letter

_BYTES_PER_CHARACTER = 9  # of UTF-8, at most: a syllable of three Korean jamo
_MOST_CONTINUED = 3  # bytes of a character after its first


class UnfinishedWords(tf.Module):
    """The unfinished last word of texts, as in Python.

    Of a word of more than `longest` characters only the end is returned.
    """

    def __init__(self, tokenizer: Tokenizer, longest: int):
        super().__init__()
        self._window = _BYTES_PER_CHARACTER * (longest + BEFORE_WORD + 1)  # bytes that are read
        word = f"[{character_ranges(is_letter)}]*"
        if tokenizer.tokens_are_words:
            word = tokenizer.match_unfinished_word()
        self._pattern = f"(?s)^.*?({word})$"

    def split(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Split texts into their complete words and their last, unfinished word.

        The word and what is read before it are clean text.
        """
        lengths = tf.strings.length(texts)
        starts = tf.maximum(lengths - self._window, 0)
        windows = tf.fill(tf.shape(texts), self._window)
        starts += _count_continued(tf.strings.substr(texts, starts, windows))
        ends = decode_texts(tf.strings.substr(texts, starts, windows))
        words = tf.strings.regex_replace(ends, self._pattern, r"\1", replace_global=False)
        zeros = tf.zeros_like(lengths)
        before = tf.strings.substr(ends, zeros, tf.strings.length(ends) - tf.strings.length(words))
        return tf.strings.join([tf.strings.substr(texts, zeros, starts), before]), words


def _count_continued(texts: tf.Tensor) -> tf.Tensor:
    """Return how many bytes at the start of texts belong to a character before: int32 [B]."""
    data = tf.io.decode_raw(texts, tf.uint8, fixed_length=_MOST_CONTINUED)
    is_continued = tf.cast(tf.bitwise.bitwise_and(data, 0xC0) == 0x80, tf.int32)
    return tf.reduce_sum(tf.math.cumprod(is_continued, axis=1), axis=1)


class PrefixTable(tf.Module):
    """A hash table of all prefixes of all words, each with its range of the sorted words, as in
    `PrefixIndex`.
    """

    def __init__(self, index: PrefixIndex):
        super().__init__()
        places = np.full(len(index.words), -1, np.int32)  # of each word; -1: it is not sorted
        places[index.ids] = np.arange(len(index.ids))
        self._places = store_array(places)
        ranges = index.list_ranges() or {"": (0, 0)}  # a table must not be empty
        no_word = len(ranges)
        self._ranges = store_array(np.array([*ranges.values(), (0, 0)], np.int32))
        entries = tf.lookup.KeyValueTensorInitializer(
            [*ranges], np.arange(no_word), tf.string, tf.int64
        )
        self._table = tf.lookup.StaticHashTable(entries, default_value=no_word)

    def match(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return which words begin with each prefix: string [B] to bool [B, |V|]."""
        ranges = tf.gather(self._ranges, self._table.lookup(prefixes))
        return (self._places >= ranges[:, :1]) & (self._places < ranges[:, 1:])


class WordTable(tf.Module):
    """The words of a vocabulary by their prefix, in the same case of letters or else in any."""

    def __init__(self, index: WordIndex):
        super().__init__()
        self.longest = index.longest
        self._same_case = PrefixTable(index)
        self._lowered = PrefixTable(index.lowered)
        variants = Counter(lower(index.words[i]) for i in index.ids)
        self.most_variants = max(variants.values())  # words that differ in case alone

    def match(self, typed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return which words begin with each prefix, bool [B, |V|], and whether these are words of
        another case, bool [B].
        """
        fits = self._same_case.match(typed)
        is_other = ~tf.reduce_any(fits, axis=1)

        def match_any_case() -> tf.Tensor:
            prefixes = change_case(typed, lower)
            in_any_case = self._same_case.match(prefixes) | self._lowered.match(prefixes)
            return tf.where(is_other[:, None], in_any_case, fits)

        return tf.cond(tf.reduce_any(is_other), match_any_case, lambda: fits), is_other


def propose_words(
    typed: tf.Tensor, is_other: tf.Tensor, words: tf.Tensor, probabilities: tf.Tensor, k: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the first k of words in descending order, those of another case as `use_case`; of
    words that become equal the first.

    Args:
        typed: prefixes, string [B].
        is_other: whether their words begin with them in another case, bool [B].
        words, probabilities: string and float32 [B, C].
    """

    def use_case() -> tuple[tf.Tensor, tf.Tensor]:
        changed = tf.where(is_other[:, None], _use_case(typed, words), words)
        number = tf.shape(changed)[1]
        is_equal = changed[:, :, None] == changed[:, None]
        is_earlier = tf.range(number)[:, None] > tf.range(number)
        is_first = ~tf.reduce_any(is_equal & is_earlier, axis=2) | (changed == "")
        best, places = tf.math.top_k(tf.where(is_first, probabilities, 0), k)
        return tf.where(best > 0, tf.gather(changed, places, batch_dims=1), ""), best

    return tf.cond(tf.reduce_any(is_other), use_case, lambda: (words[:, :k], probabilities[:, :k]))


def _use_case(typed: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
    """Return words, string [B, C], in the case of the prefixes that were typed, string [B]."""
    cleaned = tf.reshape(clean_texts(tf.reshape(words, [-1])), tf.shape(words))
    sizes = tf.strings.length(cleaned, "UTF8_CHAR")
    starts = tf.minimum(tf.strings.length(typed, "UTF8_CHAR")[:, None], sizes)
    rest = tf.strings.substr(cleaned, starts, sizes, "UTF8_CHAR")
    lowered = change_case(tf.reshape(rest, [-1]), lower)
    uppered = tf.reshape(change_case(lowered, upper), tf.shape(words))
    lowered = tf.reshape(lowered, tf.shape(words))
    rest = tf.where(find_upper_texts(typed)[:, None], uppered, lowered)
    return tf.where(words == "", "", tf.repeat(typed[:, None], tf.shape(words)[1], axis=1) + rest)
