"""Sentences -> n-grams -> log-probabilities: each distinct word is looked up once, each distinct n-gram asked once."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from keras_nplm.data.ngram_arrays import find_distinct_rows, gather_ngrams, ngram_positions
from keras_nplm.data.vocabulary import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Vocabulary,
    check_reserved,
)
from keras_nplm.models.base import NextWordModel


@dataclasses.dataclass(frozen=True)
class SentenceScores:
    """What a language model says of S sentences, and what it was asked for that.

    Args:
        log_probs: ln P of each, float64 [S], in nats.
        tokens: how many tokens of each were predicted, int64 [S].
        unk_tokens: how many of these are unknown words, int64 [S].
        ngrams: of all sentences.
        distinct_ngrams: how many different ones, each asked once.
        contexts: how many different contexts those have.
    """

    log_probs: np.ndarray
    tokens: np.ndarray
    unk_tokens: np.ndarray
    ngrams: int
    distinct_ngrams: int
    contexts: int


def sentence_ngrams(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, order: int, boundary: str
) -> tuple[np.ndarray, np.ndarray]:
    """The n-grams of sentences, each by itself: in a stream it begins from nothing, else from `<s>` and ends in `</s>`.

    Args:
        sentences: S sequences of tokens.
        vocabulary: their ids.
        order: n.
        boundary: `"stream"` or `"sentence"`.

    Returns:
        n-grams int32 [N, n], and the sentence of each, int64 [N], rising.

    Raises:
        InputError: a sentence holds a reserved token.

    Example:

    >>> sentence_ngrams([["cat"], ["a", "cat"]], Vocabulary(["cat"]), 2, "stream")[0].tolist()
    [[0, 4], [0, 1], [1, 4]]
    """
    flat = [token for sentence in sentences for token in sentence]
    words = dict.fromkeys(flat)
    check_reserved(words)
    number_of = dict(zip(words, vocabulary.encode(list(words)).tolist(), strict=True))
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    ids = np.full(len(flat) + len(sentences), EOS_ID, np.int32)
    is_word = np.ones(len(ids), bool)
    is_word[np.cumsum(lengths + 1) - 1] = False
    ids[is_word] = np.fromiter(map(number_of.__getitem__, flat), np.int32, len(flat))
    owners = np.repeat(np.arange(len(sentences)), lengths + 1)
    if not len(ids):
        return np.zeros((0, order), np.int32), owners
    tokens, positions = ngram_positions(ids, order, "sentence")
    if boundary == "stream":
        tokens = np.where(tokens == BOS_ID, PAD_ID, tokens)
        positions, owners = positions[is_word], owners[is_word]
    return gather_ngrams(tokens, positions, order), owners


def score_sentences(
    model: NextWordModel,
    vocabulary: Vocabulary,
    tokenize: Callable[[str], list[str]],
    boundary: str,
    sentences: Sequence[str],
    floor: float = -np.inf,
) -> SentenceScores:
    """ln P of each sentence by itself; one without words in a stream has 0 tokens and 0.

    N-grams that sentences share are asked once. A network goes further: all words asked in one context share its pass.

    Args:
        model: any language model.
        vocabulary: its words.
        tokenize: how a sentence is split.
        boundary: `"stream"` or `"sentence"`.
        sentences: S texts.
        floor: what ln P of an n-gram is at least.

    Raises:
        InputError: a sentence holds a reserved token.

    Example:

    >>> from keras_nplm.models.mixture import Uniform
    >>> scores = score_sentences(Uniform(8, "stream"), Vocabulary([*"abcd"]), str.split, "stream", ["a b", "a b c"])
    >>> scores.log_probs.round(3).tolist(), scores.ngrams, scores.distinct_ngrams
    ([-3.219, -4.828], 5, 3)

    Reference: Schwenk (2007), Continuous space language models, section 4.2.
    """
    ngrams, owners = sentence_ngrams([tokenize(sentence) for sentence in sentences], vocabulary, model.order, boundary)
    distinct, which = find_distinct_rows(ngrams)
    log_prob = np.maximum(model.log_prob(distinct[:, :-1], distinct[:, -1]), floor)[which]
    number = len(sentences)
    return SentenceScores(
        np.bincount(owners, log_prob, number),
        np.bincount(owners, minlength=number),
        np.bincount(owners, ngrams[:, -1] == UNK_ID, number).astype(np.int64),
        len(ngrams),
        len(distinct),
        len(find_distinct_rows(distinct[:, :-1])[0]),
    )
