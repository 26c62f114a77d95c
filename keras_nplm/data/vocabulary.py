"""The vocabulary V: words to ids and back, special tokens, and the file `vocabulary.txt`."""

import functools
import itertools
import os
import tempfile
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from keras_nplm.data.arguments import check_items, check_lines, check_sentences
from keras_nplm.data.forms import (
    FORMS,
    SUBWORDS,
    check_companions,
    companion_path,
    read_forms,
    write_forms,
)
from keras_nplm.data.ids import BOS, EOS, EOS_ID, PAD, SPECIALS, UNK, UNK_ID, check_ids, convert_ids
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.word_counts import WordCounts
from keras_nplm.io.errors import InputError
from keras_nplm.io.fields import FieldFacts
from keras_nplm.io.files import replace_file
from keras_nplm.io.text import check_is_file, decode, encode, open_text, split_fields

if typing.TYPE_CHECKING:
    from keras_nplm.data.subwords import Subwords

_WORDS_AT_A_TIME = 1 << 18  # that `from_counts` selects from
_MIN_COUNT = FieldFacts("min_count", int, 1, least=1)
_MAX_SIZE = FieldFacts("max_size", int, None, least=1, optional=True, example=20_000)
_SHOWN = 5  # words in the repr of a vocabulary
_MARKERS = (BOS, EOS)  # tokens that a text to train or evaluate on must not contain


class Vocabulary:
    """The vocabulary of a model: words and their ids.

    Ids 0 to 3 are `<pad>` (the mask), `<unk>` (any out-of-vocabulary word), `<s>` and `</s>`
    (before and after a sentence). Texts to train or evaluate on hold no `<s>` and no `</s>`. In
    other text these are out-of-vocabulary words, and `<pad>` is one in every text.

    Args:
        words: the words from id 4 on, usually the most frequent first.
        forms: for text that is normalised to lemmas: further forms, each with its word. Default: no
            lemmas.
        subwords: for the tokenizer `sentencepiece`: the SentencePiece model whose pieces the words
            are; see `from_subwords`. Default: the words are no subwords.

    Raises:
        InputError: a word or a form is invalid, or the words are not those of the subwords.

    Example:

    >>> vocabulary = Vocabulary.build([["the", "cat"], ["the", "dog"]])
    >>> vocabulary
    Vocabulary(3 words: 'the', 'cat', 'dog')
    >>> len(vocabulary), vocabulary.words
    (7, ['<pad>', '<unk>', '<s>', '</s>', 'the', 'cat', 'dog'])
    >>> vocabulary.encode(["the", "cow"])
    array([4, 1], dtype=int32)
    """

    def __init__(
        self,
        words: Sequence[str],
        forms: Mapping[str, str] | None = None,
        subwords: "Subwords | None" = None,
    ):
        words = list(check_items(words, "words"))
        seen = {*SPECIALS, *words}
        are_distinct = len(seen) == len(SPECIALS) + len(words)
        # all at once: a tenth of the time of one by one
        if not are_distinct or not _are_tokens(words):
            _refuse_words(words)
        if not words:
            raise InputError(
                "The vocabulary must have at least one word. Fix: give more text, or lower "
                "`min_count`."
            )
        for form, word in (forms or {}).items():
            is_new = form not in seen and _are_tokens([form])
            if not is_new or word not in seen or word in SPECIALS:
                raise InputError(
                    "A form must be one token outside the vocabulary, of a word in it. "
                    f"Received: {form!r} of {word!r}."
                )
        self.words = [*SPECIALS, *words]
        self.forms = None if forms is None else dict(forms)
        self.subwords = subwords
        if subwords is not None and subwords.words != self.words[len(SPECIALS) :]:
            raise InputError(
                "The words of the vocabulary must be the pieces of its SentencePiece model."
            )

    @classmethod
    def from_subwords(cls, subwords: "Subwords") -> "Vocabulary":
        """Build the vocabulary of a SentencePiece model. Its words are the pieces."""
        return cls(subwords.words, subwords=subwords)

    def tokenizer(self, tokenizer: str | Tokenizer) -> Tokenizer:
        """Return a tokenizer, or the one with a name, with the forms or the subwords of this
        vocabulary.

        Raises:
            InputError: the vocabulary has tokens of a different kind.
        """
        return get_tokenizer(tokenizer).bind(self)

    def with_forms(self, forms: Mapping[str, str]) -> "Vocabulary":
        """Return the vocabulary with the forms of its words.

        Forms that are themselves words are skipped.
        """
        words = self.words[len(SPECIALS) :]
        known = set(words)
        taken = set(self.words)
        return Vocabulary(
            words, {f: word for f, word in forms.items() if word in known and f not in taken}
        )

    @classmethod
    def build(
        cls,
        sentences: Iterable[Sequence[str]],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        tokenizer: str | Tokenizer | None = None,
        words: Sequence[str] = (),
    ) -> "Vocabulary":
        """Count words in one pass and bounded memory.

        Ids are by decreasing frequency, then by word.

        Args:
            sentences: lists of tokens; or, with `tokenizer`, strings.
            min_count: rarer words become `<unk>`. The paper's is 4: it merges words seen 3 times or
                less.
            max_size: the largest number of words, without special tokens. Default: no limit.
            tokenizer: tokenizer of strings or its name, such as `"words"`; see `get_tokenizer`.
                Default: none.
            words: the words of the vocabulary, however often they occur; others are `<unk>`.
                `min_count` and `max_size` then have no effect. Default: the alphabet of the
                tokenizer, if it has one, as `"bytes"`, else the words of the sentences.

        Raises:
            InputError: an option is out of range, the text holds a reserved token, or no word is
                left.

        Example:

        >>> Vocabulary.build(["The cat.", "The dog."], tokenizer="words").words[4:]
        ['.', 'The', 'cat', 'dog']
        """
        if tokenizer is None:
            sentences = check_sentences(sentences)
        else:
            chosen = get_tokenizer(tokenizer)
            if chosen.is_trained:
                raise InputError(
                    "Subwords are trained, not counted. Fix: use "
                    "`Vocabulary.from_subwords(Subwords.train(lines, pieces))`."
                )
            words = words or chosen.alphabet
            sentences = map(chosen.split, check_lines(sentences, "sentences"))
        with tempfile.TemporaryDirectory() as directory:
            counts = WordCounts(directory)
            for sentence in sentences:
                counts.update(sentence)
            return cls.from_counts(
                counts.pairs(), min_count=min_count, max_size=max_size, words=words
            )

    @classmethod
    def from_counts(
        cls,
        counts: Iterable[tuple[str, int]],
        *,
        min_count: int = 1,
        max_size: int | None = None,
        words: Sequence[str] = (),
    ) -> "Vocabulary":
        """Build the vocabulary from pairs (word, count), in any order, or a dictionary; see
        `build`.
        """
        _MIN_COUNT.check(min_count)
        _MAX_SIZE.check(max_size)
        kept: dict[str, int] = {}
        fixed = dict.fromkeys(words, 0)
        counts = iter(counts.items() if isinstance(counts, Mapping) else counts)
        while some := dict(itertools.islice(counts, _WORDS_AT_A_TIME)):
            check_reserved(some)
            some.pop(UNK, None)
            some.pop(PAD, None)
            if fixed:
                for word in fixed.keys() & some.keys():
                    fixed[word] += some[word]
                continue
            kept.update((word, count) for word, count in some.items() if count >= min_count)
            if max_size is not None:
                kept = {word: kept[word] for word in _sort_by_count(kept)[:max_size]}
        kept.update(fixed)
        return cls(_sort_by_count(kept))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Load a `vocabulary.txt`, one word a line in the order of the ids, with the files beside
        it.
        """
        check_is_file(path)
        with open_text(path) as file:
            text = decode(path, file.read()).replace("\r\n", "\n")
        *words, end = text.split("\n")
        if end or tuple(words[: len(SPECIALS)]) != SPECIALS:
            raise InputError(
                f"{path} is damaged or no vocabulary: it must begin with the lines "
                f"{' '.join(SPECIALS)}, and end with a line end. Fix: restore the file."
            )
        forms = read_forms(companion_path(path, FORMS), words)
        subwords = None
        if os.path.lexists(model := companion_path(path, SUBWORDS)):
            from keras_nplm.data.subwords import read_subwords  # few vocabularies have them

            subwords = read_subwords(model)
        try:
            return cls(words[len(SPECIALS) :], forms, subwords)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def with_words(self, words: Sequence[str]) -> "Vocabulary":
        """Return the vocabulary with more words.

        Old words keep their ids, and the forms stay the same.
        """
        return Vocabulary(
            [*self.words[len(SPECIALS) :], *check_items(words, "words")], self.forms, self.subwords
        )

    def save(self, path: str | os.PathLike) -> None:
        """Write the words to `path`, one a line, and beside it `forms.tsv` or
        `sentencepiece.model`, if any.

        Raises:
            InputError: other software wrote a file of these names there.
        """
        check_companions(path)
        forms_path = companion_path(path, FORMS)
        subwords_path = companion_path(path, SUBWORDS)
        if self.forms is None:
            forms_path.unlink(missing_ok=True)
        else:
            write_forms(forms_path, self.forms, self.words)
        if self.subwords is None:
            subwords_path.unlink(missing_ok=True)
        else:
            self.subwords.save(subwords_path)
        with replace_file(path) as temporary:
            temporary.write_bytes("".join(f"{word}\n" for word in self.words).encode("utf-8"))

    def __repr__(self) -> str:
        words = self.words[len(SPECIALS) :]
        shown = ", ".join(map(repr, words[:_SHOWN])) + (", …" if len(words) > _SHOWN else "")
        return f"Vocabulary({len(words):,} words: {shown})"

    def __len__(self) -> int:
        return len(self.words)

    def __reduce__(self) -> tuple:
        return Vocabulary, (self.words[len(SPECIALS) :], self.forms, self.subwords)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.__reduce__() == other.__reduce__()

    __hash__ = None  # type: ignore[assignment]

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """The ids of the words, also by their clean text, which tokens are; see `clean_text`."""
        ids = {word: i for i, word in enumerate(self.words) if word != PAD}
        text = "\n".join(self.words)
        if clean_text(text) != text:  # a list of other software
            for word, i in [*ids.items()]:
                ids.setdefault(clean_text(word), i)
        return ids

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """Look up the ids of tokens, int32 [T].

        An out-of-vocabulary token is `<unk>`, and so is `<pad>`.
        """
        if not isinstance(tokens, list):
            tokens = list(check_items(tokens, "tokens"))
        # a list first: `np.fromiter` takes half as long again
        ids = np.array([*map(self.ids.get, tokens, itertools.repeat(UNK_ID))], np.int32)
        # every item that is no string, or not valid, is out of vocabulary
        encode("".join([tokens[i] for i in np.flatnonzero(ids == UNK_ID)]))
        return ids

    def encode_text(self, tokens: Sequence[str]) -> np.ndarray:
        """Look up the ids of the tokens of a text, in which `<s>` and `</s>` are out-of-vocabulary
        words, too.
        """
        ids = self.encode(tokens)
        ids[ids <= EOS_ID] = UNK_ID
        return ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        ids = convert_ids(ids)
        check_ids(ids, len(self))
        return [self.words[i] for i in ids]


def _sort_by_count(counts: Mapping[str, int]) -> list[str]:
    """Sort words by decreasing count, then by word."""
    words = sorted(counts)
    words.sort(key=counts.__getitem__, reverse=True)  # equal counts stay sorted by word
    return words


def _refuse_words(words: Sequence[str]) -> None:
    """Refuse the words of a vocabulary, of which one occurs twice or is not one field: name it."""
    seen = set(SPECIALS)
    for line, word in enumerate(words, start=len(SPECIALS) + 1):
        if word in seen or not _are_tokens([word]):
            problem = "Duplicate" if word in seen else "Invalid"
            raise InputError(
                f"{problem} word {word!r} in the vocabulary (line {line}). A word must be distinct "
                "and without white space, NUL and half a surrogate pair. Fix: remove it."
            )
        seen.add(word)


def _are_tokens(words: list[str]) -> bool:
    """Return whether each word is one field of a text file."""
    text = " ".join(words)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return split_fields(text) == words and "\0" not in text


def check_reserved(tokens: Iterable[str]) -> None:
    """Check that a text to train or evaluate on holds no `<s>` or `</s>`: only this package inserts
    them, as `lmplz`.

    A text with markers would have other n-grams and another perplexity.
    """
    for token in _MARKERS:
        if token in tokens:
            raise InputError(
                f"The text holds the reserved token {token}: each line is a sentence, without "
                "markers. Fix: remove it, for example by `sed -E 's#</?s>##g'`."
            )
