"""Words as tokens: of running text, or between white space."""

import functools
import re
from collections.abc import Callable
from typing import Any

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import STEPS
from keras_nplm.data.tokenizers.word_characters import (
    INVISIBLE_MARKS,
    is_mark,
    is_word_character,
    match_marks,
)
from keras_nplm.io.text import SPACES, split_fields

_LETTER = r"\w"


def split_words(line: str) -> list[str]:
    """Split a line into punctuation marks and words.

    A word is a run of `\\w` with their combining marks; it may contain a single `'`, `’` or `-`
    between others. A joiner or a selector of variants after an emoji is no token.
    """
    return _compile_tokens().findall(line)


@functools.cache
def _compile_tokens() -> re.Pattern:
    return re.compile(rf"{_match_word(_LETTER, match_marks())}|[^\w\s{INVISIBLE_MARKS}]")


def _match_word(letters: str, marks: str) -> str:
    """Return the regular expression of a word of letters, each with any number of marks."""
    run = f"[{letters}][{letters}{marks}]*"
    return f"{run}(?:['’-]{run})*"


class WordTokenizer(Tokenizer):
    """Words and punctuation marks of running text; see `split_words`."""

    kind = "words"
    unit = "words"
    tokens_are_words = True
    allowed_steps = STEPS
    splits_tokens = True

    def describe(self) -> str:
        return (
            "Tokens are words and single punctuation marks. A word is a run of letters, with their "
            "combining marks, digits and `_`; it may contain single apostrophes and hyphens."
        )

    def split(self, line: str) -> list[str]:
        return self.normalise(split_words(line))

    def build_split_graph(self) -> Callable[[Any], Any]:
        from keras_nplm.data.tokenizers import word_graph

        return word_graph.split_words

    def match_partial_token(self) -> str:
        from keras_nplm.data.text_ops import character_ranges

        # punctuation that cannot lie within a word is a token, and the next token begins after it
        within = f"{character_ranges(_is_in_words)}'’\\x{{fffd}}-"
        return f"^[{within}]*([^{within}]|$)"

    @property
    def unfinished_word(self) -> str:
        # `(` or `.` is a complete token. An apostrophe or hyphen may continue the word
        return rf"(?:{_match_word(_LETTER, match_marks())}['’-]?)?\Z"

    def match_unfinished_word(self) -> str:
        from keras_nplm.data.text_ops import character_ranges

        word = _match_word(character_ranges(is_word_character), character_ranges(is_mark))
        return f"(?:{word}['’-]?)?"


def _is_in_words(character: str) -> bool:
    return is_word_character(character) or is_mark(character)


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
        return clean_text(text)[-1:] in {*SPACES}

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
