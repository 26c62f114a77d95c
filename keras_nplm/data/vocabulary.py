"""Words <-> ids: the vocabulary V, its special tokens, its file, and the lookup."""

import contextlib
import functools
import itertools
import os
import tempfile
import typing
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_nplm.data.word_counts import WordCounts
from keras_nplm.io.errors import InputError, RunError
from keras_nplm.io.files import read_text, replace_file

if typing.TYPE_CHECKING:  # Keras is imported where the layer is made: the processes that encode text do without
    import keras
PAD, UNK, BOS, EOS = "<pad>", "<unk>", "<s>", "</s>"
SPECIALS = (PAD, UNK, BOS, EOS)
PAD_ID, UNK_ID, BOS_ID, EOS_ID = range(4)
_COUNTED = 1 << 18  # words that are chosen from at a time
_RESERVED = (PAD, BOS, EOS)  # put in where they belong, never read


class Vocabulary:
    """The words that a model knows; a word's id is its place.

    Ids 0 to 3 are `<pad>` (the mask: no word stands there), `<unk>` (any word outside the vocabulary), `<s>` and
    `</s>` (before and after a sentence). Of the special tokens only `<unk>` may stand in text.

    Args:
        words: the words from id 4 on, the most frequent first by custom.
        forms: where text is normalised to lemmas: other forms, each with the word that stands for it. Default: None.

    Raises:
        InputError: a word is empty, holds white space, occurs twice or is a special token; or there is none; a form is
            a word itself, or one of none.

    Example:

    >>> vocabulary = Vocabulary.build([["the", "cat"], ["the", "dog"]])
    >>> len(vocabulary), vocabulary.words
    (7, ['<pad>', '<unk>', '<s>', '</s>', 'the', 'cat', 'dog'])
    >>> vocabulary.encode(["the", "cow"])
    array([4, 1], dtype=int32)
    """

    def __init__(self, words: Sequence[str], forms: Mapping[str, str] | None = None):
        seen = set(SPECIALS)
        for place, word in enumerate(words, start=len(SPECIALS)):
            if word in seen:
                raise InputError(f"Word {place} of the vocabulary stands in it twice: {word!r}. Keep it once.")
            if not word or word.split() != [word]:
                raise InputError(f"Word {place} of the vocabulary is empty or holds white space: {word!r}.")
            seen.add(word)
        if not words:
            raise InputError("The vocabulary has no words: give more text, or lower `min_count`.")
        for form, word in (forms or {}).items():
            if form in seen or form.split() != [form]:
                raise InputError(f"A form must be one token, and no word of the vocabulary. Received: {form!r}.")
            if word not in seen or word in SPECIALS:
                raise InputError(f"The form {form!r} is one of {word!r}, which is no word of the vocabulary.")
        self.words = [*SPECIALS, *words]
        self.forms = None if forms is None else dict(forms)

    def with_forms(self, forms: Mapping[str, str]) -> "Vocabulary":
        """The same words with those of some forms that are of them, but for forms that are words themselves.

        Example:

        >>> Vocabulary(["cat"]).with_forms({"cats": "cat", "dogs": "dog"}).forms
        {'cats': 'cat'}
        """
        words = self.words[len(SPECIALS) :]
        known, taken = set(words), set(self.words)
        return Vocabulary(words, {f: word for f, word in forms.items() if word in known and f not in taken})

    @classmethod
    def build(
        cls, sentences: Iterable[Sequence[str]], *, min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """Count words in one pass and bounded memory; ids by falling frequency, ties by word.

        Args:
            sentences: lists of tokens.
            min_count: words seen less often become `<unk>`. The paper merges those seen 3 times or fewer: 4.
            max_size: keep this many words at most, special tokens not counted. Default: all.

        Raises:
            InputError: an option is out of range, the text holds a reserved token, or no word is left.

        Example:

        >>> Vocabulary.build([["a", "b", "a", "c", "b", "a"]], min_count=2).words[4:]
        ['a', 'b']
        """
        with tempfile.TemporaryDirectory() as directory:
            counts = WordCounts(directory)
            for sentence in sentences:
                counts.update(sentence)
            return cls.from_counts(counts.pairs(), min_count=min_count, max_size=max_size)

    @classmethod
    def from_counts(
        cls, counts: Iterable[tuple[str, int]], *, min_count: int = 1, max_size: int | None = None
    ) -> "Vocabulary":
        """The same from words and how often each was seen, of which only those that are kept need fit in memory.

        Args:
            counts: each word once, in any order.
            min_count: see `build`.
            max_size: see `build`.

        Raises:
            InputError: as `build`.

        Example:

        >>> Vocabulary.from_counts([("a", 1), ("b", 2), ("c", 2)], max_size=2).words[4:]
        ['b', 'c']
        """
        if min_count < 1:
            raise InputError(f"`min_count` must be 1 or more. Received: {min_count}.")
        if max_size is not None and max_size < 1:
            raise InputError(f"`max_size` must be 1 or more. Received: {max_size}.")
        kept, types = [], 0
        counts = iter(counts)
        while some := dict(itertools.islice(counts, _COUNTED)):
            check_reserved(some)
            types += len(some)
            some.pop(UNK, None)
            kept += [(-count, word) for word, count in some.items() if count >= min_count]
            if max_size is not None:
                kept = sorted(kept)[:max_size]
        if not types:
            raise InputError("There is no word in the text that the vocabulary is counted over.")
        if not kept:
            raise InputError(f"No word was seen {min_count} times: lower `min_count`, or give more text.")
        return cls([word for _, word in sorted(kept)])

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Vocabulary":
        """Read a `vocabulary.txt`: a word a line, its id the number of lines before it; and `forms.tsv` beside it.

        Raises:
            InputError: the file is absent, not UTF-8, does not begin with the special tokens, or repeats a word; the
                forms are damaged, or those of another vocabulary.
        """
        text = read_text(path)
        if not text.endswith("\n"):
            raise InputError(f"{path} does not end with a line end: it is empty or was cut short; write it anew.")
        words = text[:-1].split("\n")
        if tuple(words[: len(SPECIALS)]) != SPECIALS:
            raise InputError(
                f"{path} must begin with the lines {' '.join(SPECIALS)}. Received: {words[: len(SPECIALS)]}."
            )
        forms = read_forms(get_forms_path(path), words)
        try:
            return cls(words[len(SPECIALS) :], forms)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    def with_words(self, words: Sequence[str]) -> "Vocabulary":
        """The vocabulary with more words, whose ids follow those that there are; its forms are those that it has.

        Raises:
            InputError: as where one is made.

        Example:

        >>> Vocabulary(["cat"]).with_words(["dog"]).words[4:]
        ['cat', 'dog']
        """
        return Vocabulary([*self.words[len(SPECIALS) :], *words], self.forms)

    def save(self, path: str | os.PathLike) -> None:
        """Write the words to `path`, one a line, and forms, if there are any, beside it."""
        write_forms(get_forms_path(path), self.forms, self.words)
        with replace_file(path) as temporary:
            temporary.write_bytes("".join(f"{word}\n" for word in self.words).encode("utf-8"))

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.words, self.forms) == (other.words, other.forms)

    __hash__ = None

    @functools.cached_property
    def lookup(self) -> "keras.layers.StringLookup":
        """The Keras layer from words to ids, for use in tf.data and in Keras models. Imports Keras."""
        import keras

        return keras.layers.StringLookup(vocabulary=self.words[2:], mask_token=PAD, oov_token=UNK)

    @functools.cached_property
    def _ids(self) -> "WordIds":
        return WordIds(self.words)

    def encode(self, tokens: Sequence[str]) -> np.ndarray:
        """Look up the ids of tokens, int32 [T]. An out-of-vocabulary token is `<unk>`.

        Raises:
            InputError: a token holds a lone surrogate, as a command-line argument with bytes that are not UTF-8 does.
        """
        ids = self._ids.look_up(tokens)
        if (ids == UNK_ID).any():
            try:
                "".join(tokens).encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError("The text holds half a surrogate pair, which is no character: give UTF-8.") from error
        return ids

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of ids.

        Raises:
            InputError: an id is not in the vocabulary.
        """
        ids = np.asarray(ids, dtype=np.int64)
        check_ids(ids, len(self))
        return [self.words[i] for i in ids]


class WordIds(dict):
    """A dictionary from words to ids. An out-of-vocabulary word is `<unk>`. Twice as fast as Keras's StringLookup.

    Args:
        words: the words in the order of their ids, special tokens included.

    Example:

    >>> WordIds(["<pad>", "<unk>", "<s>", "</s>", "the"]).look_up(["the", "cow"])
    array([4, 1], dtype=int32)
    """

    def __init__(self, words: Sequence[str]):
        super().__init__((word, place) for place, word in enumerate(words))

    def __missing__(self, word: str) -> int:
        return UNK_ID

    def look_up(self, tokens: Sequence[str]) -> np.ndarray:
        """Look up the ids of tokens, int32 [T]."""
        return np.fromiter(map(self.__getitem__, tokens), np.int32, len(tokens))


def check_ids(ids: np.ndarray, vocabulary_size: int) -> None:
    """Refuse ids that no word has.

    Raises:
        InputError: an id is negative, or `vocabulary_size` or more.
    """
    if ids.size and (ids.min() < 0 or ids.max() >= vocabulary_size):
        outside = ids.min() if ids.min() < 0 else ids.max()
        raise InputError(f"Ids must be 0 to {vocabulary_size - 1}. Received: {outside}. Is it another vocabulary's?")


def check_reserved(tokens: Iterable[str]) -> None:
    """Refuse text that holds `<pad>`, `<s>` or `</s>`: they are put in where they belong, never read.

    Raises:
        InputError: a reserved token stands in the text.
    """
    for token in _RESERVED:
        if token in tokens:
            raise InputError(f"The text holds the reserved token {token}: remove it, or write it otherwise.")


def get_forms_path(path: str | os.PathLike) -> Path:
    """Where the forms of a vocabulary are.

    Args:
        path: of the vocabulary.

    Example:

    >>> get_forms_path("model/vocabulary.txt").name, get_forms_path("brown.tflite.vocabulary.txt").name
    ('forms.tsv', 'brown.tflite.forms.tsv')
    """
    name = Path(path).name
    stem = name.removesuffix("vocabulary.txt")
    return Path(path).with_name(f"{stem}forms.tsv" if stem != name else f"{name}.forms.tsv")


def write_forms(path: Path, forms: Mapping[str, str] | None, words: Sequence[str]) -> None:
    """Write a line for each form, itself and its word with a tab between; without forms there is no such file.

    Args:
        path: the file.
        forms: forms, each with its word.
        words: of the vocabulary, whose checksum is in the first line.

    Raises:
        RunError: the file cannot be written.
    """
    if forms is not None:
        lines = "".join(f"{form}\t{word}\n" for form, word in forms.items())
        with replace_file(path) as temporary:
            temporary.write_bytes(f"{_head(lines, words)}\n{lines}".encode())
        return
    try:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()  # of a vocabulary that stood there before
    except OSError as error:
        raise RunError(f"Cannot remove {path}: {error.strerror}. It is of another vocabulary: remove it.") from error


def read_forms(path: Path, words: Sequence[str]) -> dict[str, str] | None:
    """Read what `write_forms` wrote.

    Args:
        path: the file.
        words: of the vocabulary that lies beside it.

    Returns:
        None where there is no such file.

    Raises:
        InputError: the file is damaged, or of another vocabulary.

    Example:

    >>> path = getfixture("tmp_path") / "forms.tsv"
    >>> write_forms(path, {"cats": "cat"}, ["the", "cat"])
    >>> read_forms(path, ["the", "cat"])
    {'cats': 'cat'}
    """
    if not os.path.lexists(path):
        return None
    head, _, lines = read_text(path).partition("\n")
    rows = [line.split("\t") for line in lines.split("\n")]
    forms = dict(row for row in rows if len(row) == 2)
    if head != _head(lines, words) or rows[-1] != [""] or len(forms) != len(rows) - 1:
        raise InputError(f"{path} was changed or cut short, or is of another vocabulary: make the model again.")
    return forms


def _head(lines: str, words: Sequence[str]) -> str:
    """The first line, whose checksum tells whether the rest is whole, and of which vocabulary it is."""
    checksum = zlib.crc32("\n".join([*words, lines]).encode())
    return f"form\tword\tcrc32 {checksum:08x}"
