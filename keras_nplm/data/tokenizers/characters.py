"""Characters as tokens."""

from collections.abc import Callable, Sequence
from typing import Any

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.normalisation import lower_text
from keras_nplm.data.tokenizers.pieces import SPACE
from keras_nplm.io.text import WHITE_SPACE


class CharacterTokenizer(Tokenizer):
    """Single characters. White space between words becomes one `▁`.

    >>> tokenizer = CharacterTokenizer()
    >>> tokenizer.split("of  a "), tokenizer.split_beginning("of ")
    (['o', 'f', '▁', 'a'], ['o', 'f', '▁'])
    """

    kind = "characters"
    summary = "single characters"
    unit = "characters"
    tokens_are_words = False
    allowed_steps = ("lower",)
    flag = "--token"
    value = "character"
    space = SPACE
    blanks = WHITE_SPACE + SPACE

    def describe(self) -> str:
        return f"Tokens are single characters; white space is the token `{SPACE}`."

    def split(self, line: str) -> list[str]:
        return list(SPACE.join((lower_text(line) if self.lowers else line).split()))

    def join_rest(self, tokens: Sequence[str]) -> str:
        return "".join(tokens).replace(SPACE, " ")

    def build_split_graph(self) -> Callable[[Any], Any]:
        import tensorflow as tf

        from keras_nplm.data.text_ops import merge_spaces

        def split(texts: tf.Tensor) -> tf.RaggedTensor:
            words = tf.strings.regex_replace(merge_spaces(texts), " ", SPACE)
            return tf.strings.unicode_split(words, "UTF-8")

        return split

    def match_partial_token(self) -> str:
        from keras_nplm.data.clean_ops import match_cut_character

        return match_cut_character()
