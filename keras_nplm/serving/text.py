"""Tokenizer and vocabulary lookup as TensorFlow operations: text in, token ids out, as in Python."""

import functools
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.tokenizers import CHARACTERS, NUMBER, SPACE, is_number, lower, parse_tokenizer
from keras_nplm.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Vocabulary,
)


class TextGraph(tf.Module):
    """The tokenizer and the vocabulary of a language model as TensorFlow operations.

    The ids are equal to the ids that Python computes. Python's `re` and TensorFlow's RE2 know different versions of
    Unicode, so the regular expressions list the letters and the white space of this Python. Bytes that are not UTF-8
    become U+FFFD, as in `bytes.decode("utf-8", "replace")`. `<pad>`, `<s>` and `</s>` in a text become `<unk>`. Python
    refuses them, but an error here would fail the other requests of a batch.

    Args:
        vocabulary: the words, with the forms of its lemmas if text is normalised to lemmas.
        tokenizer_name: the tokenizer and its normalisation steps; see `keras_nplm.data.tokenizers.get_tokenizer`.
        boundary: `"sentence"`: a text starts after `<s>`, and its words and `</s>` are predicted. `"stream"`: a text
            starts after padding, and only its words are predicted.

    Example:

    >>> text = TextGraph(Vocabulary(["the", "cat"]), "words", "sentence")
    >>> text.contexts(tf.constant(["the cat, the", ""]), order=4).numpy().tolist()
    [[5, 1, 4], [2, 2, 2]]
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer_name: str, boundary: str):
        super().__init__()
        self.split = _build_tokenizer(tokenizer_name)  # string [B] to string [B, (T)]
        self.boundary = boundary
        self.words = tf.constant(vocabulary.words)  # [|V|]
        ids = {word: number for number, word in enumerate(vocabulary.words) if number >= len(SPECIALS)}
        ids |= {form: ids[word] for form, word in (vocabulary.forms or {}).items()}
        entries = tf.lookup.KeyValueTensorInitializer([*ids], [*ids.values()], tf.string, tf.int64)
        self.table = tf.lookup.StaticHashTable(entries, default_value=UNK_ID)

    def look_up(self, words: tf.Tensor) -> tf.Tensor:
        """Return the ids of words, int32 of the same shape; the id of `<unk>` for an out-of-vocabulary word."""
        return tf.cast(self.table.lookup(words), tf.int32)

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the token ids of texts: string [B] to int32 [B, (T)]."""
        return tf.ragged.map_flat_values(self.look_up, self.split(texts))

    def contexts(self, texts: tf.Tensor, order: int) -> tf.Tensor:
        """Return the last n-1 tokens of each text, int32 [B, n-1], padded at the front with `<s>` or `<pad>`."""
        ids = self.ids(texts)
        places = ids.row_limits()[:, None] + tf.range(1 - order, 0, dtype=tf.int64)  # [B, n-1]
        inside = places >= ids.row_starts()[:, None]
        padded = tf.concat([[self._padding_id], ids.flat_values], axis=0)
        return tf.gather(padded, tf.where(inside, places + 1, 0))

    def ngrams(self, sentences: tf.Tensor, order: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the n-grams of all predicted tokens, int32 [N, n], and the sentence of each, int64 [N]."""
        ids, number = self.ids(sentences), tf.size(sentences)
        parts = [tf.RaggedTensor.from_tensor(tf.fill([number, order - 1], self._padding_id)), ids]
        if self.boundary == "sentence":
            parts.append(tf.RaggedTensor.from_tensor(tf.fill([number, 1], EOS_ID)))
        padded = tf.concat(parts, axis=1)
        counts = padded.row_lengths() - (order - 1)
        places = tf.ragged.range(padded.row_starts() + (order - 1), padded.row_limits())
        windows = places.flat_values[:, None] + tf.range(1 - order, 1, dtype=tf.int64)
        return tf.gather(padded.flat_values, windows), tf.repeat(tf.range(tf.cast(number, tf.int64)), counts)

    @property
    def _padding_id(self) -> int:
        return BOS_ID if self.boundary == "sentence" else PAD_ID


def _build_tokenizer(tokenizer_name: str) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Return a tokenizer as a function of tensors: string [B] to string [B, (T)]."""
    base, steps = parse_tokenizer(tokenizer_name)
    space, letter = _character_ranges(str.isspace), _character_ranges(_is_word_character)
    token = f"([{letter}]+(?:['’-][{letter}]+)*|[^{letter}{space}])"  # as in `split_words`
    no_letters = f"[^{_character_ranges(str.isalpha)}]*"
    numbers = f"{no_letters}[{_character_ranges(is_number)}]{no_letters}"
    _lower_case_codes()  # fills its cache before `split` is traced

    def split(texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        texts = _lower(texts) if "lower" in steps else texts  # lower case does not change where tokens start
        texts = tf.strings.regex_replace(texts, f"[{space}]+", " ")
        if base == "words":
            texts = tf.strings.regex_replace(texts, token, r"\1 ")
        if base == CHARACTERS:
            words = tf.strings.regex_replace(tf.strings.strip(texts), " ", SPACE)
            return tf.strings.unicode_split(words, "UTF-8")
        tokens = tf.strings.split(texts)
        if "numbers" in steps:
            is_numeric = tf.strings.regex_full_match(tokens.flat_values, numbers)
            tokens = tokens.with_flat_values(tf.where(is_numeric, NUMBER, tokens.flat_values))
        return tokens

    return split


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """Return texts in lower case, string [B], as `keras_nplm.data.tokenizers.lower` does."""
    upper, lowered = _lower_case_codes()
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    places = tf.minimum(tf.searchsorted(upper, codes), len(upper) - 1)
    codes = tf.where(tf.gather(upper, places) == codes, tf.gather(lowered, places), codes)
    return tf.strings.unicode_encode(decoded.with_flat_values(codes), "UTF-8")


@functools.cache
def _lower_case_codes() -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of all characters that lower case changes, ascending, and their new codes: int32, both."""
    codes = [code for code in range(sys.maxunicode + 1) if lower(chr(code)) != chr(code)]
    return np.array(codes, np.int32), np.array([ord(lower(chr(code))) for code in codes], np.int32)


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


@functools.cache
def _character_ranges(belongs: Callable[[str], bool]) -> str:
    """Return the characters for which `belongs` is true, as ranges for the brackets of a regular expression."""
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000 and belongs(chr(code))]
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"\\x{{{start:x}}}-\\x{{{end:x}}}" for start, end in zip(starts, ends, strict=True))
