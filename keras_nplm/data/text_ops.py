"""Text as TensorFlow operations: UTF-8, lower case, white space, classes of characters.

TensorFlow's RE2 knows a different Unicode, so the regular expressions list the characters of this
Python.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.clean_ops import clean_texts
from keras_nplm.data.tokenizers.normalisation import lower, upper
from keras_nplm.data.tokenizers.word_characters import find_ranges


def store_array(array: np.ndarray) -> tf.Variable:
    """Return a constant of the graph. It is saved with the variables: graph files end at 2 GB."""
    return tf.Variable(array, trainable=False)


def decode_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return texts whose invalid bytes are replaced by U+FFFD, as `clean_text`."""
    return clean_texts(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"))


def merge_spaces(texts: tf.Tensor) -> tf.Tensor:
    """Return texts with one space for each run of white space, and none at their ends."""
    space = character_ranges(str.isspace)
    return tf.strings.strip(tf.strings.regex_replace(texts, f"[{space}]+", " "))


def split_at_spaces(texts: tf.Tensor) -> tf.RaggedTensor:
    """Split texts at single spaces: string [B] to string [B, (T)]."""
    # without a separator it would split words at \v and \f
    tokens = tf.strings.split(texts, " ")
    return tf.ragged.boolean_mask(tokens, tokens != "")


def lower_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return clean texts in lower case, string [B], as `normalisation.lower_text` does."""
    return clean_texts(change_case(texts, lower))


def change_case(texts: tf.Tensor, change: Callable[[str], str]) -> tf.Tensor:
    """Return texts with each character in another case: string [B], `change` is `lower` or
    `upper`.
    """
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = _change_codes(decoded.flat_values, change)
    return tf.strings.unicode_encode(decoded.with_flat_values(codes), "UTF-8")


def find_upper_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return which texts are in upper case, as `normalisation.is_upper`: string to bool [B]."""
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    is_capital = decoded.with_flat_values(tf.cast(_change_codes(codes, lower) != codes, tf.int32))
    is_small = decoded.with_flat_values(_change_codes(codes, upper) != codes)
    return (tf.reduce_sum(is_capital, axis=1) > 1) & ~tf.reduce_any(is_small, axis=1)


def _change_codes(codes: tf.Tensor, change: Callable[[str], str]) -> tf.Tensor:
    changing, changed = _list_changed_codes(change)
    places = tf.minimum(tf.searchsorted(changing, codes), len(changing) - 1)
    return tf.where(tf.gather(changing, places) == codes, tf.gather(changed, places), codes)


@functools.cache
def _list_changed_codes(change: Callable[[str], str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the codes that a change of case changes, ascending, and their new codes: int32."""
    pairs = [(code, ord(change(chr(code)))) for code in _list_codes()]
    changing, changed = np.array([pair for pair in pairs if pair[0] != pair[1]], np.int32).T.copy()
    return changing, changed


@functools.cache
def _list_codes() -> list[int]:
    """Return the codes of all characters, without unassigned and private codes and surrogates."""
    left_out = ("Cn", "Co", "Cs")
    return [i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in left_out]


@functools.cache
def character_ranges(belongs: Callable[[str], bool]) -> str:
    """Return the characters for which `belongs` is true, as ranges for a regular expression."""
    ranges = find_ranges(code for code in _list_codes() if belongs(chr(code)))
    return "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)
