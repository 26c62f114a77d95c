"""Words by their prefix: the last, unfinished word of a text, and the vocabulary words that begin
with it.
"""

import bisect
import functools
import re
from collections.abc import Iterable, Sequence

from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.normalisation import is_upper, lower, upper
from keras_nplm.data.tokenizers.registry import get_tokenizer

LONGEST_PREFIX = 256  # characters that are completed: all prefixes of longer words need gigabytes
BEFORE_WORD = 3  # characters to read before the longest word, to see that a word is longer


def split_unfinished_word(text: str, tokenizer: str | Tokenizer, longest: int) -> tuple[str, str]:
    """Split a text, as `clean_text`, into its complete words and its last, unfinished word, or the
    end of a longer word.
    """
    text = clean_text(text)
    tail = text[-longest - BEFORE_WORD :]
    found = re.search(get_tokenizer(tokenizer).unfinished_word, tail)
    word = found.group() if found else ""
    return text[: len(text) - len(word)], word


def use_case(typed: str, word: str) -> str:
    """Return a word that begins with a prefix, but for the case of letters, in the case of the
    prefix.

    The rest of the word is in lower case, or in upper case after two or more capitals alone.

    >>> [use_case(typed, "house") for typed in ("Hou", "HOU", "H")]
    ['House', 'HOUSE', 'House']
    """
    rest = lower(word[len(typed) :])
    return typed + (upper(rest) if is_upper(typed) else rest)


class PrefixIndex:
    """Words sorted by their text: those with a prefix are a range of them.

    The index has the words `ids`. A prefix has at most `longest` characters: 256, or those of the
    longest word. A longer one has no words.
    """

    def __init__(self, words: Sequence[str], ids: Iterable[int]):
        self.words = words
        self.ids = sorted(ids, key=words.__getitem__)
        self.longest = min(max((len(words[i]) for i in self.ids), default=0), LONGEST_PREFIX)

    def find(self, prefix: str) -> list[int]:
        """Return the ids of the words with a prefix, in the order of the words."""
        if len(prefix) > self.longest:
            return []
        start = bisect.bisect_left(self.ids, prefix, key=self.words.__getitem__)
        stop = bisect.bisect_right(
            self.ids, prefix, start, key=lambda i: self.words[i][: len(prefix)]
        )
        return self.ids[start:stop]

    def list_ranges(self) -> dict[str, tuple[int, int]]:
        """Return each prefix of any word with its range of the sorted words: (first, after the
        last).
        """
        ranges: dict[str, tuple[int, int]] = {}
        for place, i in enumerate(self.ids):
            for length in range(min(len(self.words[i]), self.longest) + 1):
                prefix = self.words[i][:length]
                ranges[prefix] = (ranges.get(prefix, (place,))[0], place + 1)
        return ranges


class WordIndex(PrefixIndex):
    """The words of a vocabulary by their prefix, in the same case of letters or in any."""

    def find_other_case(self, prefix: str) -> list[int]:
        """Return the ids of the words with a prefix, whatever the case of letters, ascending."""
        lowered = lower(prefix)
        return sorted({*self.find(lowered), *self.lowered.find(lowered)})

    @functools.cached_property
    def lowered(self) -> PrefixIndex:
        """The words with capital letters alone, in lower case."""
        words = [*map(lower, self.words)]
        return PrefixIndex(words, [i for i in self.ids if words[i] != self.words[i]])
