"""Text -> ids within a TensorFlow graph, alike in every character with what Python does."""

import functools
import sys
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.tokenizers import CHARACTERS, NUMBER, SPACE, is_number, lower, name_parts
from keras_nplm.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    SPECIALS,
    UNK_ID,
    Vocabulary,
)


class TextGraph(tf.Module):
    """The tokenizer and the vocabulary of a language model as operations of a graph.

    Python's `re` and TensorFlow's RE2 know different editions of Unicode, so the letters and the white space that this
    Python knows are listed in the graph itself. Bytes that are not UTF-8 become U+FFFD, as with
    `bytes.decode("utf-8", "replace")`. `<pad>`, `<s>` and `</s>` in a text, which Python refuses, are unknown words:
    an error would fail the other requests of a batch, too.

    Args:
        vocabulary: the words.
        tokenizer_name: how text is split and normalised; see `keras_nplm.data.tokenizers.tokenizer`. The forms of
        lemmas
            are in the table of words.
        boundary: `"stream"`: a text begins from nothing, and its words are predicted; `"sentence"`: each begins from
            `<s>`, and its words and `</s>` are predicted.

    Example:

    >>> text = TextGraph(Vocabulary(["the", "cat"]), "words", "sentence")
    >>> text.contexts(tf.constant(["the cat, the", ""]), order=4).numpy().tolist()
    [[5, 1, 4], [2, 2, 2]]
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer_name: str, boundary: str):
        super().__init__()
        self.split = _splitter(tokenizer_name)  # string [B] to string [B, (T)]
        self.boundary = boundary
        self.words = tf.constant(vocabulary.words)  # [|V|]
        ids = {word: place for place, word in enumerate(vocabulary.words) if place >= len(SPECIALS)}
        ids |= {form: ids[word] for form, word in (vocabulary.forms or {}).items()}
        known = tf.lookup.KeyValueTensorInitializer([*ids], [*ids.values()], tf.string, tf.int64)
        self.table = tf.lookup.StaticHashTable(known, default_value=UNK_ID)

    def look_up(self, words: tf.Tensor) -> tf.Tensor:
        """The ids int32 of words, any shape; `<unk>` for those outside the vocabulary."""
        return tf.cast(self.table.lookup(words), tf.int32)

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of the tokens of texts: string [B] to int32 [B, (T)]."""
        return tf.ragged.map_flat_values(self.look_up, self.split(texts))

    def contexts(self, texts: tf.Tensor, order: int) -> tf.Tensor:
        """The last n-1 words of each text, int32 [B, n-1], filled up at the front as the boundary has it."""
        ids = self.ids(texts)
        place = ids.row_limits()[:, None] + tf.range(1 - order, 0, dtype=tf.int64)  # [B, n-1]
        inside = place >= ids.row_starts()[:, None]
        padded = tf.concat([[self._before], ids.flat_values], axis=0)
        return tf.gather(padded, tf.where(inside, place + 1, 0))

    def ngrams(self, sentences: tf.Tensor, order: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The n-grams whose last words are predicted, and the sentence that each is of: int32 [N, n], int64 [N]."""
        ids, number = self.ids(sentences), tf.size(sentences)
        parts = [tf.RaggedTensor.from_tensor(tf.fill([number, order - 1], self._before)), ids]
        if self.boundary == "sentence":
            parts.append(tf.RaggedTensor.from_tensor(tf.fill([number, 1], EOS_ID)))
        whole = tf.concat(parts, axis=1)
        predicted = whole.row_lengths() - (order - 1)
        place = tf.ragged.range(whole.row_starts() + (order - 1), whole.row_limits())
        ngrams = tf.gather(whole.flat_values, place.flat_values[:, None] + tf.range(1 - order, 1, dtype=tf.int64))
        return ngrams, tf.repeat(tf.range(tf.cast(number, tf.int64)), predicted)

    @property
    def _before(self) -> int:
        return BOS_ID if self.boundary == "sentence" else PAD_ID


def _splitter(tokenizer_name: str) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """The graph of a tokenizer: string [B] to string [B, (T)]."""
    base, steps = name_parts(tokenizer_name)
    space, letter = _characters(str.isspace), _characters(_is_of_words)
    token = f"([{letter}]+(?:['’-][{letter}]+)*|[^{letter}{space}])"  # the expression of `split_words`
    no_letters = f"[^{_characters(str.isalpha)}]*"
    numbers = f"{no_letters}[{_characters(is_number)}]{no_letters}"
    _cases()  # here, since a trace would convert each step of what it works out

    def split(texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")
        texts = _lower(texts) if "lower" in steps else texts  # which makes no other tokens of them
        texts = tf.strings.regex_replace(texts, f"[{space}]+", " ")
        if base == "words":  # put a space after each token
            texts = tf.strings.regex_replace(texts, token, r"\1 ")
        if base == CHARACTERS:
            words = tf.strings.regex_replace(tf.strings.strip(texts), " ", SPACE)
            return tf.strings.unicode_split(words, "UTF-8")
        tokens = tf.strings.split(texts)
        if "numbers" in steps:
            found = tf.strings.regex_full_match(tokens.flat_values, numbers)
            tokens = tokens.with_flat_values(tf.where(found, NUMBER, tokens.flat_values))
        return tokens

    return split


def _lower(texts: tf.Tensor) -> tf.Tensor:
    """The graph of `keras_nplm.data.tokenizers.lower`: string [B] to string [B]."""
    upper, lowered = _cases()
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    place = tf.minimum(tf.searchsorted(upper, codes), len(upper) - 1)
    codes = tf.where(tf.gather(upper, place) == codes, tf.gather(lowered, place), codes)
    return tf.strings.unicode_encode(decoded.with_flat_values(codes), "UTF-8")


@functools.cache
def _cases() -> tuple[np.ndarray, np.ndarray]:
    """The codes of the characters that lower case changes, ascending, and of what they become: int32, both."""
    codes = [code for code in range(sys.maxunicode + 1) if lower(chr(code)) != chr(code)]
    return np.array(codes, np.int32), np.array([ord(lower(chr(code))) for code in codes], np.int32)


def _is_of_words(character: str) -> bool:
    return character.isalnum() or character == "_"


@functools.cache
def _characters(belongs: Callable[[str], bool]) -> str:
    """The characters that a test of Python holds for, as ranges within the brackets of a regular expression."""
    codes = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000 and belongs(chr(code))]
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"\\x{{{start:x}}}-\\x{{{end:x}}}" for start, end in zip(starts, ends, strict=True))
