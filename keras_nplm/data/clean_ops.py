"""`clean_text` as TensorFlow operations: NFC without invisible format characters.

Characters are decomposed, marks are sorted by their combining class, and starters are composed with
what follows them: Unicode Standard Annex 15, by the tables of this Python.
"""

import functools
import re
import sys
import unicodedata
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_nplm.data.tokenizers.clean_text import IGNORED, ZERO_WIDTH_SPACE
from keras_nplm.data.tokenizers.word_characters import find_ranges

_CHANGES = 256  # is added to the combining class of a character that NFC may change, or removes
_PAGE = 256  # codes
_NONE = -1
# Korean syllables are composed by arithmetic, of jamo: an initial, a vowel and a final or none
_SYLLABLES, _INITIALS, _VOWELS, _FINALS = 0xAC00, 0x1100, 0x1161, 0x11A7
_NUM_INITIALS, _NUM_VOWELS, _NUM_FINALS = 19, 21, 28


class _Tables(NamedTuple):
    """What Unicode says of characters.

    Attributes:
        pages, classes: of each 256 codes their row of `classes`, int32; the combining class of each
            code of a row, with `_CHANGES`: int32 [R, 256].
        decomposed, splits, parts: the codes that decompose, ascending; of each the place of its
            first part, and the parts: int32. An ignored character has none.
        pairs, composites: two codes that compose, as one number, int64, and their composite, int32.
    """

    pages: np.ndarray
    classes: np.ndarray
    decomposed: np.ndarray
    splits: np.ndarray
    parts: np.ndarray
    pairs: np.ndarray
    composites: np.ndarray


def clean_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return texts in valid UTF-8, string [B], as `clean_text` does."""
    is_ascii = tf.reduce_all(tf.strings.length(texts) == tf.strings.length(texts, "UTF8_CHAR"))
    return tf.cond(is_ascii, lambda: texts, lambda: _clean(texts))


def match_cut_character() -> str:
    """Return the regular expression (RE2) of the rest of a character at the start of clean text
    that was cut at any byte: U+FFFD, and what composes with a character before.
    """
    tables = _list_tables()
    ranges = find_ranges(np.flatnonzero(tables.classes[tables.pages]).tolist())
    composing = "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges)
    return f"^\\x{{fffd}}{{0,3}}[{composing}]*"


def _clean_any(texts: tf.Tensor) -> tf.Tensor:
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    values = _find_classes(codes)
    is_unordered = (values[1:] > 0) & (values[:-1] > values[1:])
    is_clean = ~(tf.reduce_any(values >= _CHANGES) | tf.reduce_any(is_unordered))
    return tf.cond(is_clean, lambda: texts, lambda: _normalise(decoded))


# apart, so that the operations of a branch that is not taken cost nothing
_clean = tf.function(
    _clean_any,
    [tf.TensorSpec([None], tf.string)],
    autograph=False,
    experimental_attributes={"_noinline": True},
)


def _normalise(decoded: tf.RaggedTensor) -> tf.Tensor:
    """Return texts in NFC without ignored characters: int32 [B, (characters)] to string [B]."""
    codes, rows = _decompose(decoded.flat_values, decoded.value_rowids())
    classes = _find_classes(codes) % _CHANGES
    segments = tf.cumsum(tf.cast(_find_starters(classes, rows), tf.int32))
    order = tf.argsort(segments * _CHANGES + classes, stable=True)
    state = [tf.gather(codes, order), tf.gather(classes, order), rows, tf.size(codes) > 0]
    shapes = [*[tf.TensorShape([None])] * 3, tf.TensorShape([])]
    codes, _, rows, _ = tf.while_loop(
        lambda *state: state[-1], lambda *state: _compose(*state[:-1]), state, shapes
    )
    composed = tf.RaggedTensor.from_value_rowids(codes, rows, nrows=decoded.nrows(), validate=False)
    return tf.strings.unicode_encode(composed, "UTF-8")


def _find_classes(codes: tf.Tensor) -> tf.Tensor:
    tables = _list_tables()
    places = tf.gather(tables.pages, codes // _PAGE) * _PAGE + codes % _PAGE
    return tf.gather(tables.classes.ravel(), places)


def _find_starters(classes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return which characters begin a text, or are no marks: int32 and int64 [N] to bool [N]."""
    return tf.concat([[True], rows[1:] != rows[:-1]], axis=0)[: tf.size(rows)] | (classes == 0)


def _decompose(codes: tf.Tensor, rows: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the parts of characters, int32 [N], and their rows, int64 [N]."""
    tables = _list_tables()
    places = tf.minimum(tf.searchsorted(tables.decomposed, codes), len(tables.decomposed) - 1)
    changes = tf.gather(tables.decomposed, places) == codes
    first = tf.gather(tables.splits, places)
    sizes = tf.where(changes, tf.gather(tables.splits, places + 1) - first, 1)
    owners = tf.repeat(tf.range(tf.size(codes)), sizes)
    part = tf.range(tf.size(owners)) - tf.gather(tf.cumsum(sizes, exclusive=True) - first, owners)
    changes = tf.gather(changes, owners)
    parts = tf.gather(tables.parts, tf.where(changes, part, 0))
    return tf.where(changes, parts, tf.gather(codes, owners)), tf.gather(rows, owners)


def _compose(
    codes: tf.Tensor, classes: tf.Tensor, rows: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Compose each starter with the first character after it that composes with it.

    Returns:
        the codes, classes and rows that are left, and whether anything was composed.
    """
    size = tf.size(codes)
    places = tf.range(size)
    before = tf.maximum(places - 1, 0)
    is_starter = _find_starters(classes, rows)
    starters = tf.cast(tf.where(is_starter)[:, 0], tf.int32)
    segments = tf.cumsum(tf.cast(is_starter, tf.int32)) - 1
    # a starter composes with a starter that is directly before it
    bases = tf.where(is_starter, before, tf.gather(starters, segments))
    is_open = (bases == before) | (tf.gather(classes, before) < classes)
    is_open &= (bases < places) & (tf.gather(rows, bases) == rows)
    is_open &= tf.gather(is_starter & (classes == 0), bases)
    composites = tf.where(is_open, _find_composites(tf.gather(codes, bases), codes), _NONE)
    chosen = tf.where(composites == _NONE, size, places)
    chosen = tf.math.unsorted_segment_min(chosen, bases, size)  # of each starter
    is_composed = chosen < size
    codes = tf.where(is_composed, tf.gather(composites, tf.minimum(chosen, size - 1)), codes)
    removed = tf.boolean_mask(chosen, is_composed)[:, None]
    is_left = ~tf.scatter_nd(removed, tf.ones_like(removed[:, 0], tf.bool), [size])
    left = [tf.boolean_mask(values, is_left) for values in (codes, classes, rows)]
    return left[0], left[1], left[2], tf.reduce_any(is_composed)


def _find_composites(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Return what two characters compose to, or -1: int32 [N]."""
    tables = _list_tables()
    pairs = _join_pair(tf.cast(first, tf.int64), tf.cast(second, tf.int64))
    places = tf.minimum(tf.searchsorted(tables.pairs, pairs), len(tables.pairs) - 1)
    is_pair = tf.gather(tables.pairs, places) == pairs
    found = tf.where(is_pair, tf.gather(tables.composites, places), _NONE)
    initial, vowel, final = first - _INITIALS, second - _VOWELS, second - _FINALS
    has_vowel = (initial >= 0) & (initial < _NUM_INITIALS) & (vowel >= 0) & (vowel < _NUM_VOWELS)
    found = tf.where(has_vowel, _SYLLABLES + (initial * _NUM_VOWELS + vowel) * _NUM_FINALS, found)
    syllable = first - _SYLLABLES
    is_syllable = (syllable >= 0) & (syllable < _NUM_INITIALS * _NUM_VOWELS * _NUM_FINALS)
    has_final = is_syllable & (syllable % _NUM_FINALS == 0) & (final > 0) & (final < _NUM_FINALS)
    return tf.where(has_final, first + final, found)


def _join_pair(first: int | tf.Tensor, second: int | tf.Tensor) -> int | tf.Tensor:
    return first * (1 << 32) + second


@functools.cache
def _list_tables() -> _Tables:
    ignored = re.compile(f"[{IGNORED}]")
    values = np.array([unicodedata.combining(chr(i)) for i in range(sys.maxunicode + 1)], np.int32)
    changing = {*range(_VOWELS, _VOWELS + _NUM_VOWELS), *range(_FINALS + 1, _FINALS + _NUM_FINALS)}
    decomposed: dict[int, list[int]] = {}
    pairs: dict[int, int] = {}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        mapping = unicodedata.decomposition(character)
        if ignored.match(character):
            decomposed[code] = []
        elif character == ZERO_WIDTH_SPACE:
            decomposed[code] = [ord(" ")]
        elif mapping and not mapping.startswith("<"):
            decomposed[code] = [*map(ord, unicodedata.normalize("NFD", character))]
            if unicodedata.normalize("NFC", character) == character:
                first, second = (int(part, 16) for part in mapping.split())
                pairs[_join_pair(first, second)] = code
                changing.add(second)
                continue
        else:
            continue
        changing.add(code)
    values[[*changing]] += _CHANGES
    classes, pages = np.unique(values.reshape(-1, _PAGE), axis=0, return_inverse=True)
    ordered = sorted(pairs)
    return _Tables(
        pages=pages.astype(np.int32).ravel(),
        classes=classes,
        decomposed=np.array([*decomposed], np.int32),
        splits=np.cumsum([0, *map(len, decomposed.values())], dtype=np.int32),
        parts=np.array([code for parts in decomposed.values() for code in parts], np.int32),
        pairs=np.array(ordered, np.int64),
        composites=np.array([pairs[pair] for pair in ordered], np.int32),
    )
