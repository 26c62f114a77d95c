"""Words by their prefix: the last, unfinished word of a text, and the vocabulary words that begin
with it.
"""

import bisect
import re
from collections.abc import Sequence
from typing import AnyStr, Generic

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.normalisation import lower
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.io.errors import InputError

LONGEST_PREFIX = 256  # characters that are completed: all prefixes of longer words need gigabytes
BEFORE_WORD = 3  # characters to read before the longest word, to see that a word is longer


def split_unfinished_word(text: str, tokenizer: str | Tokenizer, longest: int) -> tuple[str, str]:
    """Split a text into its complete words and its last, unfinished word, normalised, or the end of
    a longer word.
    """
    chosen = get_tokenizer(tokenizer)
    if not chosen.tokens_are_words:
        raise InputError(
            f"Prefix completion must have a tokenizer of words. Received: {chosen.name!r}."
        )
    tail = text[-longest - BEFORE_WORD :]
    found = re.search(chosen.unfinished_word, tail)
    word = found.group() if found else ""
    context = text[: len(text) - len(word)]
    return context, lower(word) if chosen.lowers else word


class PrefixIndex(Generic[AnyStr]):
    """Sorted words, as text or as bytes: the words with a prefix are a range of them.

    Ids begin with `first`. A prefix has at most `longest` characters: 256, or those of the longest
    word. A longer one has no words.
    """

    def __init__(self, words: Sequence[AnyStr], first: int):
        self.words: Sequence[AnyStr] = words
        self.ids = sorted(range(first, len(words)), key=words.__getitem__)
        self.longest = min(max(map(len, words[first:]), default=0), LONGEST_PREFIX)

    def find(self, prefix: AnyStr) -> list[int]:
        """Return the ids of the words with a prefix, in the order of the words."""
        if len(prefix) > self.longest:
            return []
        start = bisect.bisect_left(self.ids, prefix, key=self.words.__getitem__)
        stop = bisect.bisect_right(
            self.ids, prefix, start, key=lambda i: self.words[i][: len(prefix)]
        )
        return self.ids[start:stop]

    def find_equal(self, word: AnyStr) -> list[int]:
        start = bisect.bisect_left(self.ids, word, key=self.words.__getitem__)
        return self.ids[
            start : bisect.bisect_right(self.ids, word, start, key=self.words.__getitem__)
        ]

    def list_ranges(self) -> dict[AnyStr, tuple[int, int]]:
        """Return each prefix of any word with its range of the sorted words: (first, after the
        last).
        """
        ranges: dict[AnyStr, tuple[int, int]] = {}
        for place, i in enumerate(self.ids):
            for length in range(min(len(self.words[i]), self.longest) + 1):
                prefix = self.words[i][:length]
                ranges[prefix] = (ranges.get(prefix, (place,))[0], place + 1)
        return ranges
