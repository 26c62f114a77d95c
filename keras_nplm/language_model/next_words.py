"""The most probable next words of a text, and completions of its unfinished last word."""

from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.data.arguments import check_text
from keras_nplm.data.ngram_arrays import predicts_end
from keras_nplm.data.prefixes import PrefixIndex, split_unfinished_word
from keras_nplm.data.special_ids import SPECIALS
from keras_nplm.data.tokenizers import WORD_TOKENIZERS, lower, parse_tokenizer
from keras_nplm.data.vocabulary import Vocabulary
from keras_nplm.io.errors import check_argument
from keras_nplm.language_model.completion import AFTER_SPACE, NO_SPACE, WordPieces, complete_words, split_unfinished

if TYPE_CHECKING:
    from keras_nplm.language_model.language_model import LanguageModel

Words = list[tuple[str, float]]  # with their probabilities, the most probable first


def find_next_words(language_model: "LanguageModel", context: str, top_k: int) -> Words:
    """Return the most probable next words; see `LanguageModel.next_words`."""
    check_argument("top_k", top_k >= 1, "1 or more", top_k)
    check_text(context, "context")
    if language_model.vocabulary.subwords is not None:
        return _search(language_model, context, "", top_k, with_end=predicts_end(language_model.boundary))
    return _rank(language_model, context, language_model.proposed_ids, top_k)


def complete_prefix(language_model: "LanguageModel", text: str, top_k: int) -> Words:
    """Return the most probable words that begin with the last word; see `LanguageModel.complete_prefix`."""
    check_argument("top_k", top_k >= 1, "1 or more", top_k)
    check_text(text, "text")
    index = language_model.word_index
    if isinstance(index, WordPieces):
        return _search(language_model, *split_unfinished(text), top_k, with_end=False)
    context, prefix = split_unfinished_word(text, language_model.tokenizer_name, index.longest)
    return _rank(language_model, context, np.sort(np.array(index.find(prefix), np.int32)), top_k)


def index_words(vocabulary: Vocabulary, tokenizer_name: str) -> PrefixIndex | WordPieces:
    """Index the words of a vocabulary by prefix, or its subwords or characters as parts of words."""
    if parse_tokenizer(tokenizer_name)[0] in WORD_TOKENIZERS:
        return PrefixIndex(vocabulary.words, len(SPECIALS))
    return WordPieces(vocabulary)


def _rank(language_model: "LanguageModel", context: str, ids: np.ndarray, top_k: int) -> Words:
    """Return the most probable of the words `ids`, ascending; equally probable words in the order of their ids."""
    log_probs = language_model.model.next_log_probs(language_model.encode_beginning(context)[None])[0, ids]
    best = np.argsort(-log_probs, kind="stable")[:top_k]
    return [(language_model.vocabulary.words[ids[i]], float(np.exp(log_probs[i]))) for i in best]


def _search(language_model: "LanguageModel", text: str, prefix: str, top_k: int, with_end: bool) -> Words:
    """Return the most probable next words of a model of pieces after the text before an unfinished word."""
    pieces = language_model.word_index
    before = text.rstrip(pieces.blanks)
    context_ids = language_model.encode_beginning(before)
    begin = pieces.last[context_ids[-1]]
    if before and (prefix or before != text):
        begin = NO_SPACE if before == text else AFTER_SPACE
    if "lower" in parse_tokenizer(language_model.tokenizer_name)[1]:
        prefix = lower(prefix)
    options = dict(prefix=prefix, with_end=with_end, top_k=top_k)
    return complete_words(language_model.model, context_ids, pieces, begin, **options)
