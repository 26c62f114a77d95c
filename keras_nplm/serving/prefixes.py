"""The unfinished last word of texts, and the vocabulary words with a prefix, as TensorFlow
operations, as in Python.
"""

from collections import Counter

import numpy as np
import tensorflow as tf

from keras_nplm.data.prefixes import BEFORE_WORD, PrefixIndex
from keras_nplm.data.text_ops import character_ranges, decode_texts, lower_texts, store_array
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.language_model.word_pieces import is_letter

_BYTES_PER_CHARACTER = 4  # of UTF-8, at most


class UnfinishedWords(tf.Module):
    """The unfinished last word of texts, as in Python.

    Of a word of more than `longest` characters only the end is returned.
    """

    def __init__(self, tokenizer: str | Tokenizer, longest: int):
        super().__init__()
        chosen = get_tokenizer(tokenizer)
        self._window = _BYTES_PER_CHARACTER * (longest + BEFORE_WORD + 1)  # bytes that are read
        self._pattern = _match_unfinished_word(chosen)
        self._lowers = chosen.lowers

    def split(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Split texts into their complete words and their last, unfinished word, normalised."""
        lengths = tf.strings.length(texts)
        starts = tf.maximum(lengths - self._window, 0)
        windows = tf.fill(tf.shape(texts), self._window)
        ends = decode_texts(tf.strings.substr(texts, starts, windows))
        words = tf.strings.regex_replace(ends, self._pattern, r"\1", replace_global=False)
        context_lengths = lengths - tf.strings.length(words)
        contexts = tf.strings.substr(texts, tf.zeros_like(lengths), context_lengths)
        if self._lowers:
            words = lower_texts(words)
        return contexts, words


class PrefixTable(tf.Module):
    """A hash table of all prefixes of all words, each with its range of the sorted words, as in
    `PrefixIndex`.
    """

    def __init__(self, index: PrefixIndex):
        super().__init__()
        # of each word among the sorted words; -1: special tokens
        places = np.full(len(index.words), -1, np.int32)
        places[index.ids] = np.arange(len(index.ids))
        counts = Counter(index.words[i] for i in index.ids)  # pieces can have the same text
        prefixes = []
        ranges = []
        for prefix, (start, stop) in index.list_ranges().items():
            prefixes.append(prefix)
            ranges.append((start, stop, start + counts[prefix]))
        no_word = len(ranges)
        ranges.append((0, 0, 0))
        self.longest = index.longest
        self.most_equal = max(counts.values())
        self._places = store_array(places)
        self._ranges = store_array(np.array(ranges, np.int32))
        entries = tf.lookup.KeyValueTensorInitializer(
            prefixes, np.arange(no_word), tf.string, tf.int64
        )
        self._table = tf.lookup.StaticHashTable(entries, default_value=no_word)

    def look_up(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return the range of the sorted words with each prefix, int32 […, 3].

        The three numbers are its first place, the place after its last, and the place after the
        words that equal the prefix.
        """
        return tf.gather(self._ranges, self._table.lookup(prefixes))

    def match(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return which words begin with each prefix: string […] to bool […, |V|]."""
        ranges = self.look_up(prefixes)
        starts = ranges[..., 0:1]
        stops = ranges[..., 1:2]
        return (self._places >= starts) & (self._places < stops)


def _match_unfinished_word(tokenizer: Tokenizer) -> str:
    """Return a regular expression of a text whose group is its unfinished last word, as in
    Python.
    """
    if tokenizer.tokens_are_words:
        word = tokenizer.match_unfinished_word()
    else:
        word = f"[{character_ranges(is_letter)}]*"
    return f"(?s)^.*?({word})$"
