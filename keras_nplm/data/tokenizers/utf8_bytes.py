"""Bytes as tokens: a vocabulary of 256 tokens for text in any language, without `<unk>`."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.normalisation import lower_text
from keras_nplm.data.tokenizers.pieces import BYTE_NAMES, join_pieces
from keras_nplm.io.text import encode


class ByteTokenizer(Tokenizer):
    """The UTF-8 bytes of a text, named as in `<0x41>`. White space between words becomes one space.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.split("a  é")
    ['<0x61>', '<0x20>', '<0xC3>', '<0xA9>']
    >>> tokenizer.join(tokenizer.split("a  é"))
    'a é'
    """

    kind = "bytes"
    summary = "UTF-8 bytes"
    unit = "characters"
    tokens_are_words = False
    allowed_steps = ("lower",)
    space = BYTE_NAMES[ord(" ")]
    searches_words = True
    alphabet = BYTE_NAMES

    def describe(self) -> str:
        example = BYTE_NAMES[ord("A")]
        return (
            f"Tokens are the bytes of UTF-8, such as `{example}` for A; white space is "
            f"the token `{self.space}`. The vocabulary has all 256, so that no text is out of "
            "vocabulary. "
            "`predict_next` and `complete_prefix` return whole words, which a beam search finds."
        )

    def split(self, line: str) -> list[str]:
        text = " ".join(line.split())
        if self.lowers:
            text = lower_text(text)
        return [BYTE_NAMES[byte] for byte in encode(text)]

    def join_rest(self, tokens: Sequence[str]) -> str:
        return join_pieces(tokens)

    def build_split_graph(self) -> Callable[[Any], Any]:
        import tensorflow as tf

        from keras_nplm.data.text_ops import merge_spaces

        def split(texts: tf.Tensor) -> tf.RaggedTensor:
            single = tf.strings.bytes_split(merge_spaces(texts))
            numbers = tf.reshape(tf.io.decode_raw(single.flat_values, tf.uint8), [-1])
            names = tf.gather(tf.constant(BYTE_NAMES), tf.cast(numbers, tf.int32))
            return single.with_flat_values(names)

        return split

    def match_partial_token(self) -> str:
        from keras_nplm.data.clean_ops import match_cut_character

        return match_cut_character()
