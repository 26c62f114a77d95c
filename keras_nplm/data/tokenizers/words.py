"""Words as tokens: of running text, or between white space."""

import re
from collections.abc import Callable
from typing import Any

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.io.text import SPACES, split_fields

_WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def split_words(line: str) -> list[str]:
    """Split a line into punctuation marks and words.

    A word is a run of `\\w`; it may contain a single `'`, `’` or `-` between others.
    """
    return _WORDS.findall(line)


class WordTokenizer(Tokenizer):
    """Words and punctuation marks of running text; see `split_words`."""

    kind = "words"
    unit = "words"
    tokens_are_words = True
    allowed_steps = STEPS
    splits_tokens = True
    # A mark such as `(` or `.` is a complete token. An apostrophe or hyphen may continue the word
    unfinished_word = r"(?:\w+(?:['’-]\w+)*['’-]?)?\Z"

    def describe(self) -> str:
        return (
            "Tokens are words and single punctuation marks. A word is a run of letters, digits and "
            "`_`; it may contain single apostrophes and hyphens."
        )

    def split(self, line: str) -> list[str]:
        return self.normalise(split_words(line))

    def build_split_graph(self) -> Callable[[Any], Any]:
        from keras_nplm.data.tokenizers import word_graph

        return word_graph.split_words

    def match_partial_token(self) -> str:
        from keras_nplm.data.text_ops import character_ranges, is_word_character

        # a mark that cannot lie within a word is a token, and the next token begins after it
        within = f"{character_ranges(is_word_character)}'’\\x{{fffd}}-"
        return f"^[{within}]*([^{within}]|$)"

    def match_unfinished_word(self) -> str:
        from keras_nplm.data.text_ops import character_ranges, is_word_character

        letter = character_ranges(is_word_character)
        return f"(?:[{letter}]+(?:['’-][{letter}]+)*['’-]?)?"


class WhitespaceTokenizer(Tokenizer):
    """Tokens of text in which spaces, tabs and line ends separate them."""

    kind = "whitespace"
    unit = "words"
    tokens_are_words = True
    allowed_steps = STEPS
    unfinished_word = rf"[^{SPACES}\ufffd]*\Z"

    def describe(self) -> str:
        return "Tokens are separated by white space."

    def split(self, line: str) -> list[str]:
        return self.normalise(split_fields(line))

    def ends_with_space(self, text: str) -> bool:
        return bool(text) and text[-1] in SPACES

    def build_split_graph(self) -> Callable[[Any], Any]:
        import tensorflow as tf

        from keras_nplm.data.text_ops import split_at_spaces

        def split(texts: tf.Tensor) -> tf.RaggedTensor:
            return split_at_spaces(tf.strings.regex_replace(texts, f"[{SPACES}]+", " "))

        return split

    def match_partial_token(self) -> str:
        return f"^[^{SPACES}]*([{SPACES}]|$)"

    def match_unfinished_word(self) -> str:
        return f"[^{SPACES}\\x{{fffd}}]*"
