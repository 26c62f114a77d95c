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

from keras_nplm.data.tokenizers.normalisation import lower
from keras_nplm.data.tokenizers.word_characters import find_ranges


def store_array(array: np.ndarray) -> tf.Variable:
    """Return a constant of the graph. It is saved with the variables: graph files end at 2 GB."""
    return tf.Variable(array, trainable=False)


def decode_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return texts whose invalid bytes are replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")


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
    """Return texts in lower case, string [B], as `normalisation.lower` does."""
    upper, lowered = list_lower_case_codes()
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    places = tf.minimum(tf.searchsorted(upper, codes), len(upper) - 1)
    codes = tf.where(tf.gather(upper, places) == codes, tf.gather(lowered, places), codes)
    return tf.strings.unicode_encode(decoded.with_flat_values(codes), "UTF-8")


@functools.cache
def list_lower_case_codes() -> tuple[np.ndarray, np.ndarray]:
    """Return the codes that lower case changes, ascending, and their new codes: int32, both."""
    upper = []
    lowered = []
    for code in _list_codes():
        new_code = ord(lower(chr(code)))
        if new_code != code:
            upper.append(code)
            lowered.append(new_code)
    return np.array(upper, np.int32), np.array(lowered, np.int32)


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
