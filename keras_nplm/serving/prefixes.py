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
    """The unfinished last word of texts, as in Python; of more than `longest` characters only the
    end is returned.
    """

    def __init__(self, tokenizer: str | Tokenizer, longest: int):
        super().__init__()
        self._window = _BYTES_PER_CHARACTER * (longest + BEFORE_WORD + 1)
        chosen = get_tokenizer(tokenizer)
        self._pattern = _match_unfinished_word(chosen)
        self._is_lower = chosen.lowers

    def split(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        lengths = tf.strings.length(texts)
        start = tf.maximum(lengths - self._window, 0)
        ends = decode_texts(tf.strings.substr(texts, start, tf.fill(tf.shape(texts), self._window)))
        words = tf.strings.regex_replace(ends, self._pattern, r"\1", replace_global=False)
        contexts = tf.strings.substr(
            texts, tf.zeros_like(lengths), lengths - tf.strings.length(words)
        )
        return contexts, lower_texts(words) if self._is_lower else words


class PrefixTable(tf.Module):
    """A hash table of all prefixes of all words, each with its range of the sorted words, as in
    `PrefixIndex`.
    """

    def __init__(self, index: PrefixIndex):
        super().__init__()
        places = np.full(len(index.words), -1, np.int32)  # of each word among the sorted words
        places[index.ids] = np.arange(len(index.ids))
        ranges = index.list_ranges()
        counts = Counter(index.words[i] for i in index.ids)
        rows = [(start, stop, start + counts[prefix]) for prefix, (start, stop) in ranges.items()]
        self.longest = index.longest
        self.most_equal = max(counts.values())
        self._places = store_array(places)
        # the last: no word has the prefix
        self._ranges = store_array(np.array([*rows, (0, 0, 0)], np.int32))
        entries = tf.lookup.KeyValueTensorInitializer(
            [*ranges], np.arange(len(ranges)), tf.string, tf.int64
        )
        self._table = tf.lookup.StaticHashTable(entries, default_value=len(ranges))

    def look_up(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return the places of the sorted words with each prefix, int32 […, 3]: first, end, end of
        equal words.
        """
        return tf.gather(self._ranges, self._table.lookup(prefixes))

    def match(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return which words begin with each prefix: string […] to bool […, |V|]."""
        ranges = self.look_up(prefixes)
        return (self._places >= ranges[..., :1]) & (self._places < ranges[..., 1:2])


def _match_unfinished_word(tokenizer: Tokenizer) -> str:
    """Return a regular expression of a text whose group is its unfinished last word, as in
    Python.
    """
    word = f"[{character_ranges(is_letter)}]*"
    if tokenizer.tokens_are_words:
        word = tokenizer.match_unfinished_word()
    return f"(?s)^.*?({word})$"
