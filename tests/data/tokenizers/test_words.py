"""Marks of running text; `tests/text_cases.json` has words in scripts with marks and joiners."""

import re
import sys
import unicodedata

from keras_nplm.data.tokenizers.word_characters import is_mark, match_marks


def test_all_marks_of_unicode_are_in_the_pattern():
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    marks = [*filter(is_mark, every)]
    assert marks == re.findall(f"[{match_marks()}]", every)
    assert sum(unicodedata.category(mark) == "Mn" for mark in marks) > 1000
