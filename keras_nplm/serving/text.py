"""Tokenizer and vocabulary lookup as TensorFlow operations: text in, token ids out, as in Python."""

import functools
import sys
import unicodedata
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import padding_id, predicts_end
from keras_nplm.data.ids import EOS_ID, SPECIALS, UNK_ID
from keras_nplm.data.tokenizers import CHARACTERS, NUMBER, SPACE, is_number, lower, parse_tokenizer, uses_subwords
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.text import SPACES
from keras_nplm.serving.subwords import SubwordGraph

_BYTES_PER_TOKEN, _MORE_BYTES = 16, 64  # of a text, that `contexts` reads first
_GROWTH = 4  # if they hold too few tokens, it reads this many times more bytes


class TextGraph(tf.Module):
    """The tokenizer and the vocabulary of a language model as TensorFlow operations, with the ids of Python.

    TensorFlow's RE2 knows a different Unicode, so the regular expressions list the letters of this Python. Bytes that
    are not UTF-8 become U+FFFD. `<pad>`, `<s>` and `</s>` in a text become `<unk>`, since an error fails a whole batch.

    A text is one line. A line end at its end is no part of it, and a text without tokens is blank: no sentence. A line
    end elsewhere is white space between words and characters, and a character of subwords, as in Python.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer_name: str, boundary: str):
        super().__init__()
        texts = tf.TensorSpec([None], tf.string)
        self.boundary = boundary
        self.words = tf.constant(vocabulary.words)  # [|V|]
        self._has_subwords = vocabulary.subwords is not None
        if self._has_subwords:
            self._subwords = SubwordGraph(vocabulary.subwords)  # an attribute, so that its tables are saved
            is_lower = "lower" in parse_tokenizer(tokenizer_name)[1]
            encode = (lambda texts: self._subwords.encode(lower_texts(texts))) if is_lower else self._subwords.encode
            self._encode = tf.function(encode, [texts], autograph=False)
        else:  # one copy of the tables of the tokenizer
            self._tokenize = tf.function(_build_tokenizer(tokenizer_name), [texts], autograph=False)
        self._partial_token = _match_partial_token(tokenizer_name)
        self._has_characters = parse_tokenizer(tokenizer_name)[0] == CHARACTERS
        ids = {word: number for number, word in enumerate(vocabulary.words) if number >= len(SPECIALS)}
        ids |= {form: ids[word] for form, word in (vocabulary.forms or {}).items()}
        entries = tf.lookup.KeyValueTensorInitializer([*ids], [*ids.values()], tf.string, tf.int64)
        self.table = tf.lookup.StaticHashTable(entries, default_value=UNK_ID)

    def look_up(self, words: tf.Tensor) -> tf.Tensor:
        """Return the ids of words, int32 of the same shape; the id of `<unk>` for an out-of-vocabulary word."""
        return tf.cast(self.table.lookup(words), tf.int32)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the words of texts: string [B] to string [B, (T)]."""
        return self._tokenize(decode_texts(texts))

    def ids(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the token ids of texts: string [B] to int32 [B, (T)]."""
        if self._has_subwords:
            return self._encode(_begin_words(decode_texts(texts)))
        return tf.ragged.map_flat_values(self.look_up, self.split(texts))

    def _ids_of_ends(self, ends: tf.Tensor, is_cut: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of the ends of texts. Where a text is cut, its first token may be partial and is left out."""
        whole = tf.strings.regex_replace(ends, self._partial_token, "", replace_global=False)
        if self._has_subwords:
            return self._encode(tf.where(is_cut, whole, _begin_words(ends)))
        tokens = self._tokenize(tf.where(is_cut, whole, ends))
        if self._has_characters:
            tokens = _append_space(tokens, ends)
        return tf.ragged.map_flat_values(self.look_up, tokens)

    def contexts(self, texts: tf.Tensor, order: int, max_length: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the last n-1 tokens of texts, int32 [B, n-1], and whether they lie in the last `max_length` bytes.

        More and more bytes are read, until they hold n-1 tokens after a place where a token surely begins.
        """

        def read(texts: tf.Tensor, size: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            lengths = tf.strings.length(texts)
            is_cut, sizes = lengths > size, tf.fill(tf.shape(lengths), size)
            ends = decode_texts(tf.strings.substr(texts, tf.maximum(lengths - size, 0), sizes))
            ids = self._ids_of_ends(ends, is_cut)
            return self._take_last(ids, order - 1), ~is_cut | (ids.row_lengths() >= order - 1)

        def has_more(size: tf.Tensor, _: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
            return (size < max_length) & ~tf.reduce_all(found)

        def read_more(size: tf.Tensor, context_ids: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, ...]:
            size = tf.where(size > max_length // _GROWTH, max_length, size * _GROWTH)
            rows = tf.where(~found)  # [R, 1]
            ids_of_rows, found_in_rows = read(tf.gather(texts, rows[:, 0]), size)
            context_ids = tf.tensor_scatter_nd_update(context_ids, rows, ids_of_rows)
            return size, context_ids, tf.tensor_scatter_nd_update(found, rows, found_in_rows)

        size = tf.constant(min(_BYTES_PER_TOKEN * (order - 1) + _MORE_BYTES, max_length))
        _, context_ids, found = tf.while_loop(has_more, read_more, [size, *read(texts, size)])
        return context_ids, found

    def _take_last(self, ids: tf.RaggedTensor, number: int) -> tf.Tensor:
        """Return the last ids of each row, int32 [B, number], padded at the front."""
        places = ids.row_limits()[:, None] + tf.range(-number, 0, dtype=tf.int64)  # [B, number]
        inside = places >= ids.row_starts()[:, None]
        padded = tf.concat([[padding_id(self.boundary)], ids.flat_values], axis=0)
        return tf.gather(padded, tf.where(inside, places + 1, 0))

    def ngrams(self, sentences: tf.Tensor, order: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return ids int32 [T], the places of predicted tokens in them, int64 [N], and the tokens' sentences [N].

        A blank sentence has no predicted token.
        """
        number = tf.size(sentences)
        # the other tokenizers find no token in a line end or a blank line
        ids = self.ids(_clean_lines(sentences) if self._has_subwords else sentences)
        parts = [tf.RaggedTensor.from_tensor(tf.fill([number, order - 1], padding_id(self.boundary))), ids]
        if predicts_end(self.boundary):
            parts.append(_repeat_token(EOS_ID, ids.row_lengths() > 0))  # a blank text is no sentence
        padded = tf.concat(parts, axis=1)
        places = tf.ragged.range(padded.row_starts() + (order - 1), padded.row_limits())
        return padded.flat_values, places.flat_values, places.value_rowids()


def gather_ngrams(ids: tf.Tensor, places: tf.Tensor, order: int) -> tf.Tensor:
    """Return the n-grams of ids, int32 [T], that end at some places, int64 [N]: int32 [N, n]."""
    return tf.gather(ids, places[:, None] + tf.range(1 - order, 1, dtype=tf.int64))


def decode_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return texts whose invalid bytes are replaced by U+FFFD."""
    return tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8")


def _match_partial_token(tokenizer_name: str) -> str:
    """Return a regular expression for the start of a text cut at any byte, up to where a token surely begins.

    A character that is cut begins with at most three U+FFFD, so these say nothing about where tokens begin.
    """
    base, _ = parse_tokenizer(tokenizer_name)
    if base == CHARACTERS:
        return r"^\x{fffd}{0,3}"
    if uses_subwords(tokenizer_name):
        return "^[^ ]*"  # up to a space, after which a word begins
    # `words`: a mark that cannot lie within a word is a token, and the next token begins after it
    letter = character_ranges(is_word_character)
    within = f"{letter}'’\\x{{fffd}}-"
    inside, after = (f"[{within}]", f"[^{within}]") if base == "words" else (f"[^{SPACES}]", f"[{SPACES}]")
    return f"^{inside}*({after}|$)"


def _begin_words(texts: tf.Tensor) -> tf.Tensor:
    """Return texts with a space before the first word, as before each other word."""
    return tf.where(texts == "", "", tf.strings.join([" ", texts]))


def _clean_lines(texts: tf.Tensor) -> tf.Tensor:
    """Return lines without the line ends at their ends; blank lines are empty."""
    return tf.strings.regex_replace(texts, f"(?:^[{character_ranges(str.isspace)}]+|[\\r\\n]+)$", "")


def _append_space(characters: tf.RaggedTensor, texts: tf.Tensor) -> tf.RaggedTensor:
    """Return the characters of texts, string [B, (T)], with a `▁` after those that end with white space."""
    has_space = tf.strings.regex_full_match(texts, f"(?s).*[{character_ranges(str.isspace)}]")
    return tf.concat([characters, _repeat_token(SPACE, has_space & (characters.row_lengths() > 0))], axis=1)


def _repeat_token(token: str | int, is_in_row: tf.Tensor) -> tf.RaggedTensor:
    """Return rows of one token where `is_in_row`, bool [B], and of none elsewhere."""
    lengths = tf.cast(is_in_row, tf.int64)
    return tf.RaggedTensor.from_row_lengths(tf.fill([tf.reduce_sum(lengths)], token), lengths, validate=False)


def _build_tokenizer(tokenizer_name: str) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Return a tokenizer as a function of tensors: valid UTF-8, string [B], to string [B, (T)]."""
    base, steps = parse_tokenizer(tokenizer_name)
    space = SPACES if base == "whitespace" else character_ranges(str.isspace)
    letter = character_ranges(is_word_character)
    token = f"([{letter}]+(?:['’-][{letter}]+)*|[^{letter}{space}])"  # as in `split_words`
    no_letters = f"[^{character_ranges(str.isalpha)}]*"
    numbers = f"{no_letters}[{character_ranges(is_number)}]{no_letters}"

    def split(texts: tf.Tensor) -> tf.RaggedTensor:
        texts = lower_texts(texts) if "lower" in steps else texts  # lower case does not change where tokens start
        texts = tf.strings.regex_replace(texts, f"[{space}]+", " ")
        if base == "words":
            texts = tf.strings.regex_replace(texts, token, r"\1 ")
        if base == CHARACTERS:
            words = tf.strings.regex_replace(tf.strings.strip(texts), " ", SPACE)
            return tf.strings.unicode_split(words, "UTF-8")
        tokens = tf.strings.split(texts, " ")  # without a separator it would split words at \v and \f
        tokens = tf.ragged.boolean_mask(tokens, tokens != "")
        if "numbers" in steps:
            is_numeric = tf.strings.regex_full_match(tokens.flat_values, numbers)
            tokens = tokens.with_flat_values(tf.where(is_numeric, NUMBER, tokens.flat_values))
        return tokens

    return split


def lower_texts(texts: tf.Tensor) -> tf.Tensor:
    """Return texts in lower case, string [B], as `keras_nplm.data.tokenizers.lower` does."""
    upper, lowered = list_lower_case_codes()
    decoded = tf.strings.unicode_decode(texts, "UTF-8")
    codes = decoded.flat_values
    places = tf.minimum(tf.searchsorted(upper, codes), len(upper) - 1)
    codes = tf.where(tf.gather(upper, places) == codes, tf.gather(lowered, places), codes)
    return tf.strings.unicode_encode(decoded.with_flat_values(codes), "UTF-8")


@functools.cache
def list_lower_case_codes() -> tuple[np.ndarray, np.ndarray]:
    """Return the codes of all characters that lower case changes, ascending, and their new codes: int32, both."""
    pairs = [(code, ord(lower(chr(code)))) for code in _list_codes()]
    upper, lowered = zip(*[pair for pair in pairs if pair[0] != pair[1]], strict=True)
    return np.array(upper, np.int32), np.array(lowered, np.int32)


@functools.cache
def _list_codes() -> list[int]:
    """Return the codes of all characters, without unassigned and private codes and surrogates."""
    return [i for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) not in ("Cn", "Co", "Cs")]


def is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


@functools.cache
def character_ranges(belongs: Callable[[str], bool]) -> str:
    """Return the characters for which `belongs` is true, as ranges for the brackets of a regular expression."""
    codes = [code for code in _list_codes() if belongs(chr(code))]
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code != after - 1]
    return "".join(f"\\x{{{start:x}}}-\\x{{{end:x}}}" for start, end in zip(starts, ends, strict=True))
