"""Tokens that are looked up in a vocabulary, as TensorFlow operations."""

from collections.abc import Callable

import tensorflow as tf

from keras_nplm.data.text_ops import character_ranges, lower_texts
from keras_nplm.data.tokenizers.normalisation import NUMBER, is_number


class TokenGraph(tf.Module):
    """A tokenizer as TensorFlow operations: texts, in valid UTF-8, to tokens to ids.

    Args:
        split, partial_token, space, lowers: of the tokenizer; see `build_split_graph`,
            `match_partial_token`, `space` and `lowers` of `Tokenizer`.
        names_numbers: whether a number becomes one symbol.
        look_up: a function from a tensor of tokens to their ids. It replaces forms by lemmas.
    """

    def __init__(
        self,
        split: Callable[[tf.Tensor], tf.RaggedTensor],
        look_up: Callable[[tf.Tensor], tf.Tensor],
        *,
        partial_token: str,
        space: str,
        lowers: bool,
        names_numbers: bool,
    ):
        super().__init__()
        self._look_up = look_up
        self._space = space
        self._partial_token = partial_token
        # one copy of the tables of the tokenizer for all served functions
        texts = tf.TensorSpec([None], tf.string)
        normalised = _normalise(split, lowers, names_numbers)
        self._split = tf.function(normalised, [texts], autograph=False)

    def split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the tokens of texts, normalised: string [B] to string [B, (T)]."""
        return self._split(texts)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of texts: string [B] to int32 [B, (T)]."""
        return tf.ragged.map_flat_values(self._look_up, self.split(texts))

    def encode_sentences(self, lines: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of lines. A blank line, or a line end, has none."""
        return self.encode(lines)

    def encode_ends(self, ends: tf.Tensor, is_cut: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids of the ends of prompts.

        Where a text is cut, its first token may be partial, and is left out. `is_cut` is bool [B].
        """
        whole = tf.strings.regex_replace(ends, self._partial_token, "", replace_global=False)
        tokens = self.split(tf.where(is_cut, whole, ends))
        if self._space:
            tokens = self._append_space(tokens, ends)
        return tf.ragged.map_flat_values(self._look_up, tokens)

    def _append_space(self, tokens: tf.RaggedTensor, texts: tf.Tensor) -> tf.RaggedTensor:
        """Append a token for the white space at the end of a text. Tokens: string [B, (T)]."""
        white_space = character_ranges(str.isspace)
        has_space = tf.strings.regex_full_match(texts, f"(?s).*[{white_space}]")
        lengths = tf.cast(has_space & (tokens.row_lengths() > 0), tf.int64)
        spaces = tf.fill([tf.reduce_sum(lengths)], self._space)
        appended = tf.RaggedTensor.from_row_lengths(spaces, lengths, validate=False)
        return tf.concat([tokens, appended], axis=1)


def _normalise(
    split: Callable[[tf.Tensor], tf.RaggedTensor], lowers: bool, names_numbers: bool
) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    """Return a function from texts to normalised tokens."""
    no_letters = f"[^{character_ranges(str.isalpha)}]*"
    number = f"{no_letters}[{character_ranges(is_number)}]{no_letters}"

    def split_and_normalise(texts: tf.Tensor) -> tf.RaggedTensor:
        if lowers:  # which does not change where tokens start
            texts = lower_texts(texts)
        tokens = split(texts)
        if names_numbers:
            is_numeric = tf.strings.regex_full_match(tokens.flat_values, number)
            tokens = tokens.with_flat_values(tf.where(is_numeric, NUMBER, tokens.flat_values))
        return tokens

    return split_and_normalise
