"""A fixed vocabulary: the words that count, given by a file in place of their counts in a text."""

import dataclasses
import os
from collections.abc import Sequence

from keras_nplm.data.forms import list_companions
from keras_nplm.data.ids import SPECIALS
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError, check_argument, shorten_value
from keras_nplm.io.files import identify_content
from keras_nplm.io.remote import display_url, fetch, fetch_beside
from keras_nplm.io.text import read_lines, split_fields

# what word lists of SRILM and others name beside words: <unk>, and the pause
_NO_WORDS = {*SPECIALS, "<UNK>", "-pau-"}
_SHOWN = 3


@dataclasses.dataclass(frozen=True, repr=False)
class FixedVocabulary:
    """The words that a file gives; other words of a text are `<unk>`.

    Attributes:
        vocabulary: the words in the order of the file.
        has_ids: whether the file is a `vocabulary.txt`, whose ids are kept. The words of a list
            get theirs by frequency in the training text.
        name: the path of the file with its size and checksum, as `config.json` records it.
    """

    vocabulary: Vocabulary
    has_ids: bool
    name: str

    @classmethod
    def read(cls, path: str | os.PathLike) -> "FixedVocabulary":
        """Read a list with a word a line, or a `vocabulary.txt`, plain or compressed.

        Special tokens, blank lines and repeated words of a list are left out.

        Raises:
            InputError: the file is absent, is no UTF-8 text, or has a line of several words.
        """
        given = os.fspath(path)
        path = fetch(given)
        fix = "name a file with a word per line, or the vocabulary.txt of a model."
        check_argument("vocabulary", path.is_file(), "an existing file", repr(given), fix)
        name = f"{display_url(path)} ({identify_content(path)})"
        lines = [clean_text(line) for line in read_lines(path)]  # as tokenizers read text
        if tuple(lines[: len(SPECIALS)]) == SPECIALS:
            fetch_beside(path, [companion.name for companion in list_companions(path)])
            return cls(Vocabulary.load(path), True, name)
        fields = [split_fields(line) for line in lines]
        _check_single_words(given, fields)
        words = dict.fromkeys(word for of_line in fields for word in of_line)
        kept = [word for word in words if word not in _NO_WORDS]
        check_argument("vocabulary", bool(kept), "a file with words", repr(given), fix)
        return cls(Vocabulary(kept), False, name)

    def describe(self) -> dict:
        """Return what `config.json` records."""
        return {"vocabulary": self.name}

    def describe_unreachable(self, tokenizer: Tokenizer) -> str:
        """Return a sentence on the words that the tokenizer never makes of a text, if any."""
        words = self.vocabulary.words[len(SPECIALS) :]
        unreachable = [word for word in words if tokenizer.split(word) != [word]]
        if not unreachable:
            return ""
        shown = ", ".join(map(repr, unreachable[:_SHOWN]))
        return (
            f"{len(unreachable):,} of {len(words):,} words of the vocabulary are never tokens of "
            f"the tokenizer {tokenizer.name}, such as {shown}. They stay in the vocabulary, and no "
            "text has them. Fix: use `--tokenizer whitespace` for text that is tokenised as the "
            "list is; or write the words as this tokenizer does."
        )


def _check_single_words(path: str, lines: Sequence[Sequence[str]]) -> None:
    several = [number for number, words in enumerate(lines, start=1) if len(words) > 1]
    if several:
        first = shorten_value(" ".join(lines[several[0] - 1]))
        raise InputError(
            f"`vocabulary` must have one word per line. Received: {path} with several words in "
            f"{len(several):,} lines, such as line {several[0]}: {first}. Fix: of a lexicon keep "
            f"the words, by `awk '{{print $1}}' {path} > words.txt`; of a row of words make lines, "
            f"by `tr -s ' \\t' '\\n' < {path} > words.txt`."
        )
