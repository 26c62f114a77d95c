"""The subwords or characters of a vocabulary as parts of words."""

import re
import unicodedata

import numpy as np

from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.pieces import spell_piece
from keras_nplm.data.vocabulary import Vocabulary

_NO_SPACES = re.compile(  # Thai, Lao, Tibetan, Myanmar, Khmer, kana, Chinese characters
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
)
# What a text ends with: nothing, a letter, a different character, a space; then: no space may come
# before the word.
_OPEN = 0
_LETTER = 1
_OTHER = 2
AFTER_SPACE = 3
NO_SPACE = 4


class WordPieces:
    """The pieces of a vocabulary as parts of words: which piece begins a new word, and after which
    piece.

    A word begins after a space, at `</s>`, before and after a punctuation mark, and at each piece
    of a script without spaces, such as Chinese or Thai.

    Attributes:
        texts: the UTF-8 text of each piece, without the space before it.
        codes: the bytes of these texts, int16 [|V|, longest], and -1 after their ends.
        last: what each piece ends with, int [|V|].
        begins: whether a piece begins a word after a text with this end, bool [5, |V|].
        blanks: the characters that separate words.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer: Tokenizer):
        size = len(vocabulary)
        first = len(SPECIALS)
        self.texts = [b""] * first
        self.last = np.full(size, _OPEN)
        starts = np.full(size, _OTHER)
        has_space = np.zeros(size, bool)
        fits = np.ones(size, bool)  # not the second or a later byte of a character
        for place, name in enumerate(vocabulary.words[first:], start=first):
            data = spell_piece(name)
            has_space[place] = data.startswith(b" ")
            text = data.removeprefix(b" ")
            self.texts.append(text)
            fits[place] = not b"\x80" <= text[:1] < b"\xc0"
            starts[place] = _classify(text, 0) if text else AFTER_SPACE
            self.last[place] = _classify(text, -1) if text else AFTER_SPACE
        after_space = has_space if has_space.any() else fits
        self.begins = np.stack(
            [fits, (starts != _LETTER) | has_space, fits, after_space, fits & ~has_space]
        )
        self.begins[:, :first] = False
        self.begins[:NO_SPACE, EOS_ID] = True
        lengths = np.array([*map(len, self.texts)])
        longest = lengths.max()
        self.codes = np.full((size, longest), -1, np.int16)
        is_inside = np.arange(longest) < lengths[:, None]
        self.codes[is_inside] = np.frombuffer(b"".join(self.texts), np.uint8)
        self.blanks = tokenizer.blanks

    def find_fitting(self, prefix: bytes) -> np.ndarray:
        """Return which pieces may continue a word that begins with `prefix`, by how much of it is
        read: bool [n+1, |V|].

        Their texts begin with the rest of it, or are the beginning of the rest.
        """
        longest = self.codes.shape[1]
        codes = np.full(len(prefix) + longest, -1, np.int16)
        codes[: len(prefix)] = np.frombuffer(prefix, np.uint8)
        found = []
        for rest in np.lib.stride_tricks.sliding_window_view(codes, longest):
            is_equal = (self.codes == rest) | (self.codes < 0) | (rest < 0)
            found.append(is_equal.all(axis=1))
        return np.stack(found) & (np.arange(len(self.texts)) >= len(SPECIALS))


def _classify(text: bytes, place: int) -> int:
    try:
        character = text.decode("utf-8")[place]
    except UnicodeDecodeError:  # a byte of a rare character
        return _LETTER
    return _LETTER if is_letter(character) else _OTHER


def is_letter(character: str) -> bool:
    """Return whether a character continues a word: a letter, digit, mark or apostrophe of a script
    with spaces.
    """
    belongs = character in "'’_" or unicodedata.category(character)[0] in "LMN"
    return belongs and not _NO_SPACES.match(character)


def split_unfinished(text: str) -> tuple[str, str]:
    """Split a text, as `clean_text`, into its complete words and its last, unfinished word, which
    consists of letters.
    """
    text = clean_text(text)
    start = len(text)
    while start and is_letter(text[start - 1]):
        start -= 1
    return text[:start], text[start:]
