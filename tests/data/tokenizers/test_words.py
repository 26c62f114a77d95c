"""Words of running text, in scripts with marks and joiners too."""

import re
import sys
import unicodedata

import pytest

from keras_nplm.data.tokenizers.word_characters import is_mark, match_marks
from keras_nplm.data.tokenizers.words import split_words


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("The cat's mother-in-law, a-", ["The", "cat's", "mother-in-law", ",", "a", "-"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("שָׁלוֹם עֲלֵיכֶם", ["שָׁלוֹם", "עֲלֵיכֶם"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("e\u0301te\u0301's", ["e\u0301te\u0301's"]),
        ("a'\u0301b", ["a", "'", "\u0301", "b"]),
        ("\u0301a \u200da", ["\u0301", "a", "a"]),
        ("❤\ufe0fa 👩\u200d🔬", ["❤", "a", "👩", "🔬"]),
    ],
)
def test_marks_belong_to_the_letter_before_them(line, tokens):
    assert split_words(line) == tokens


def test_all_marks_of_unicode_are_in_the_pattern():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    marks = [*filter(is_mark, every)]
    assert marks == re.findall(f"[{match_marks()}]", every)
    assert sum(unicodedata.category(mark) == "Mn" for mark in marks) > 1000
