"""TextCodec: text to token ids and back, and what a prompt ends with."""

import functools
from typing import Any

import numpy as np

from keras_nplm.data.boundary import check_boundary_name, padding_id, predicts_end
from keras_nplm.data.ids import EOS_ID, SPECIALS
from keras_nplm.data.prefixes import WordIndex
from keras_nplm.data.tokenizers.base import Tokenizer
from keras_nplm.data.tokenizers.clean_text import clean_text
from keras_nplm.data.tokenizers.registry import get_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import InputError
from keras_nplm.language_model.word_pieces import WordPieces
from keras_nplm.models.spelling import SpellingModel


class TextCodec:
    """Text to token ids and back: a vocabulary, a tokenizer, a boundary and a spelling model.

    Args:
        vocabulary: the words.
        tokenizer: a `Tokenizer`, or its name with its normalisation, such as `"words+lower"`. With
            `+lemmas`, a vocabulary without word forms receives the forms of the dictionary.
        boundary: `"sentence"`, `"text"` or `"stream"`; see `LanguageModel`.
        spelling: the spelling model of out-of-vocabulary words, for bits per character. None:
            unknown words have no spelling.
        vocabulary_scope: `"train"` if the words are those of the training split, `"corpus"` if they
            are those of all splits. None: unknown.

    Raises:
        InputError: the vocabulary is one of lemmas, and the tokenizer is not; or the boundary is
            none of the three.

    Example:

    >>> codec = TextCodec(Vocabulary(["the", "cat"]), "words")
    >>> codec.encode_beginning("the cat the", order=3).tolist()
    [5, 4]
    >>> codec.encode_beginning("", order=3).tolist()  # `<s>`
    [2, 2]
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        tokenizer: str | Tokenizer,
        boundary: str = "sentence",
        spelling: SpellingModel | None = None,
        vocabulary_scope: str | None = None,
    ):
        chosen = get_tokenizer(tokenizer)
        if chosen.uses_lemmas and vocabulary.forms is None:
            vocabulary = vocabulary.with_forms(chosen.load_forms())
        if vocabulary.forms is not None and not chosen.uses_lemmas:
            raise InputError(
                "`tokenizer` must be one with `+lemmas` for a vocabulary of lemmas. "
                f"Received: {chosen.name}."
            )
        check_boundary_name(boundary)
        self.vocabulary = vocabulary
        self.tokenizer = vocabulary.tokenizer(chosen)
        self.boundary = boundary
        self.spelling = spelling
        self.vocabulary_scope = vocabulary_scope

    def __getstate__(self) -> dict:
        """Return the content, without the index of words, which is made from it."""
        return {name: value for name, value in self.__dict__.items() if name != "word_index"}

    def with_vocabulary(self, vocabulary: Vocabulary) -> "TextCodec":
        """Return a codec with more words, which leave the spelling model."""
        spelling = None
        if self.spelling is not None:
            unknown = dict(self.spelling.counts)
            for word in vocabulary.words:
                unknown.pop(word, None)
            spelling = SpellingModel.from_vocabulary(vocabulary, [unknown])
        return self.replace(vocabulary=vocabulary, spelling=spelling)

    def replace(self, **changes: Any) -> "TextCodec":
        """Return a codec with other arguments, such as another tokenizer."""
        return TextCodec(**self.__getstate__() | changes)

    @property
    def predicts_end(self) -> bool:
        """Whether the end of a sentence, `</s>`, is predicted."""
        return predicts_end(self.boundary)

    @property
    def proposed_ids(self) -> np.ndarray:
        """The ids that may be proposed as next words: the words, and `</s>` where it is
        predicted.
        """
        first = EOS_ID if self.predicts_end else EOS_ID + 1
        return np.arange(first, len(self.vocabulary))

    @functools.cached_property
    def word_index(self) -> WordIndex | WordPieces:
        """The words of the vocabulary by prefix, or its subwords or characters as parts of
        words.
        """
        if self.tokenizer.tokens_are_words:
            words = [*map(clean_text, self.vocabulary.words)]
            return WordIndex(words, range(len(SPECIALS), len(words)))
        return WordPieces(self.vocabulary, self.tokenizer)

    def first_context(self, order: int) -> np.ndarray:
        """Return the context of the first word of a text, int32 [n-1]."""
        return np.full(order - 1, padding_id(self.boundary), np.int32)

    def encode_beginning(self, text: str, order: int) -> np.ndarray:
        """Return the context of the word after the beginning of a sentence, int32 [n-1].

        White space at the end of the text counts; see `Tokenizer.split_beginning`.
        """
        tokens = self.tokenizer.split_beginning(text)
        ids = self.vocabulary.encode_text(tokens)
        return np.concatenate([self.first_context(order), ids])[len(ids) :]


def check_order(order: int, tokenizer: str | Tokenizer) -> None:
    """Refuse unigrams of parts of words: where words begin depends on the token before."""
    chosen = get_tokenizer(tokenizer)
    if order < 2 and not chosen.tokens_are_words:
        raise InputError(
            f"`order` must be 2 or more with the tokenizer {chosen.name}. Received: {order}. "
            "Fix: give 2 or more, or words."
        )
