"""The vocabulary words with a prefix as TensorFlow operations, as in Python."""

import numpy as np
import tensorflow as tf

from keras_nplm.data.prefixes import BEFORE_WORD, PrefixIndex
from keras_nplm.data.tokenizers import parse_tokenizer
from keras_nplm.data.vocabulary import SPECIALS, Vocabulary
from keras_nplm.serving.graph_model import store_array
from keras_nplm.serving.text import _character_ranges, _decode, _is_word_character, _lower, _lower_case_codes

_BYTES_PER_CHARACTER = 4  # of UTF-8, at most


class PrefixGraph(tf.Module):
    """The unfinished last word of texts, and the words that begin with it, as TensorFlow operations.

    A hash table has all prefixes of all words, each with its range of the sorted words. So the words with a prefix cost
    two comparisons per word of the vocabulary. The results are those of `split_unfinished_word` and `PrefixIndex`.

    Args:
        vocabulary: the words.
        tokenizer_name: a tokenizer of words, with its normalisation steps.

    Example:

    >>> prefixes = PrefixGraph(Vocabulary(["value", "name", "valid"]), "words")
    >>> contexts, words = prefixes.split(tf.constant(["the val", "the "]))
    >>> contexts.numpy().tolist(), words.numpy().tolist()
    ([b'the ', b'the '], [b'val', b''])
    >>> prefixes.match(words).numpy().tolist()
    [[True, False, True], [True, True, True]]
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer_name: str):
        super().__init__()
        index = PrefixIndex(vocabulary.words, first=len(SPECIALS))
        ranges = index.list_ranges()
        places = np.empty(len(index.ids), np.int32)
        places[np.array(index.ids) - len(SPECIALS)] = np.arange(len(index.ids))
        self._places = store_array(places)  # of each word among the sorted words
        self._ranges = store_array(np.array([*ranges.values(), (0, 0)], np.int32))  # the last: no word has the prefix
        entries = tf.lookup.KeyValueTensorInitializer([*ranges], np.arange(len(ranges)), tf.string, tf.int64)
        self._table = tf.lookup.StaticHashTable(entries, default_value=len(ranges))
        self._window = _BYTES_PER_CHARACTER * (index.longest + BEFORE_WORD + 1)
        self._pattern = _match_unfinished_word(tokenizer_name)
        self._is_lower = "lower" in parse_tokenizer(tokenizer_name)[1]
        _lower_case_codes()  # fills its cache before a function is traced

    def split(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the text before the unfinished word, and the word: string [B] to two string [B]."""
        lengths = tf.strings.length(texts)
        start = tf.maximum(lengths - self._window, 0)
        ends = _decode(tf.strings.substr(texts, start, tf.fill(tf.shape(texts), self._window)))
        words = tf.strings.regex_replace(ends, self._pattern, r"\1", replace_global=False)
        contexts = tf.strings.substr(texts, tf.zeros_like(lengths), lengths - tf.strings.length(words))
        return contexts, _lower(words) if self._is_lower else words

    def match(self, prefixes: tf.Tensor) -> tf.Tensor:
        """Return which words begin with each prefix: string [B] to bool [B, |V| - 4], without the special tokens."""
        ranges = tf.gather(self._ranges, self._table.lookup(prefixes))  # [B, 2]
        return (self._places >= ranges[:, :1]) & (self._places < ranges[:, 1:])


def _match_unfinished_word(tokenizer_name: str) -> str:
    """Return a regular expression of a text whose group is its unfinished last word, as in `split_unfinished_word`."""
    letter, space = _character_ranges(_is_word_character), _character_ranges(str.isspace)
    base, _ = parse_tokenizer(tokenizer_name)
    word = f"(?:[{letter}]+(?:['’-][{letter}]+)*['’-]?)?" if base == "words" else f"[^{space}\\x{{fffd}}]*"
    return f"(?s)^.*?({word})$"
