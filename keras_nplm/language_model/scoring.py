"""Score sentences: log-probabilities of texts under a language model, each distinct n-gram evaluated once."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from keras_nplm.data.distinct_rows import find_distinct_rows
from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.data.special_ids import BOS_ID, EOS, EOS_ID, PAD_ID, UNK_ID
from keras_nplm.data.vocabulary import Vocabulary, check_reserved
from keras_nplm.models.base import NextWordModel, row_blocks

_CHARACTERS = 1 << 21  # of sentences that are scored together; above the batches of `rescoring.features`
_IDS = 1 << 25  # ids of n-grams that are scored together: a cache has hundreds of words of context
T = TypeVar("T")
_LONG_CONTEXT = 64  # words of context from which n-grams are scored in the order of the text, as caches need it


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """The score of a sentence: its log-probability."""

    log_prob: float  # the sum of ln P(token | context), in nats
    tokens: int  # predicted tokens; `</s>` counts where the model predicts it
    unk_tokens: int  # predicted tokens that are out-of-vocabulary words


@dataclasses.dataclass(frozen=True)
class TokenScore:
    """The score of a token of a sentence."""

    token: str  # `</s>` at the end of a sentence
    log_prob: float  # ln P(token | context), in nats
    order: int  # of the n-gram: the longest that an n-gram model lists; else all words of the context count
    is_unknown: bool  # whether the token is out of the vocabulary


@dataclasses.dataclass
class ScoringCounts:
    """Counters of the work done by scoring: how many n-grams share one evaluation."""

    ngrams: int = 0
    distinct_ngrams: int = 0  # each is evaluated once
    contexts: int = 0  # distinct contexts of these n-grams


def batch_by_size(items: Iterable[T], measure: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Group items into batches of about `most` characters, as `measure` counts them."""
    batch, size = [], 0
    for item in items:
        batch.append(item)
        size += measure(item)
        if size >= most:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def batch_sentences(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Group sentences into batches of about 2 million characters, which are scored together."""
    return batch_by_size(sentences, lambda sentence: len(sentence) + 1, _CHARACTERS)


def _arrange_sentences(
    sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, order: int, boundary: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (tokens, positions, owners): the n-grams of sentences as in `ngram_positions`, and their sentences."""
    flat = [token for sentence in sentences for token in sentence]
    words = dict.fromkeys(flat)
    check_reserved(words)
    id_of = dict(zip(words, vocabulary.encode(list(words)).tolist(), strict=True))
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    ids = np.full(len(flat) + len(sentences), EOS_ID, np.int32)
    is_word = np.ones(len(ids), bool)
    is_word[np.cumsum(lengths + 1) - 1] = False
    ids[is_word] = np.fromiter(map(id_of.__getitem__, flat), np.int32, len(flat))
    owners = np.repeat(np.arange(len(sentences)), lengths + 1)
    if not len(ids):
        return ids, np.zeros(0, np.int32), owners
    tokens, positions = ngram_positions(ids, order, "sentence")
    if boundary == "stream":
        tokens = np.where(tokens == BOS_ID, PAD_ID, tokens)
        positions, owners = positions[is_word], owners[is_word]
    return tokens, positions, owners


def score_sentences(
    model: NextWordModel,
    vocabulary: Vocabulary,
    tokenize: Callable[[str], list[str]],
    boundary: str,
    sentences: Sequence[str],
    *,
    min_log_prob: float = -np.inf,
    counts: ScoringCounts | None = None,
    in_order: bool = False,
    by_token: bool = False,
) -> list[SentenceScore] | list[list[TokenScore]]:
    """Return the log-probability of each sentence, or of its tokens; sentences do not see each other as context.

        ln P(sentence) = sum_t ln P(w_t | w_{t-n+1} … w_{t-1})

    An n-gram that occurs several times is evaluated once, but with `in_order` where it stands, for a model that learns.
    With the boundary `"stream"`, a sentence without words has 0 tokens and the log-probability 0.

    Reference: Schwenk (2007), Continuous space language models, section 4.2.
    """
    texts = [tokenize(sentence) for sentence in sentences]
    tokens, positions, owners = _arrange_sentences(texts, vocabulary, model.order, boundary)
    log_prob, orders = np.empty(len(positions)), np.empty(len(positions), np.int64)
    for block in row_blocks(len(positions), min(2 * _CHARACTERS, _IDS // model.order)):  # most often one block
        ngrams = gather_ngrams(tokens, positions[block], model.order)
        distinct, which = ngrams, slice(None)
        if not in_order:
            distinct, which = find_distinct_rows(ngrams, keep_order=model.order > _LONG_CONTEXT)
        log_prob[block] = np.maximum(model.log_prob(distinct[:, :-1], distinct[:, -1]), min_log_prob)[which]
        if by_token:
            orders[block] = model.find_orders(distinct[:, :-1], distinct[:, -1])[which]
        if counts is not None:
            counts.ngrams += len(ngrams)
            counts.distinct_ngrams += len(distinct)
            counts.contexts += len(find_distinct_rows(distinct[:, :-1])[0])
    number, is_unknown = len(sentences), tokens[positions] == UNK_ID
    if by_token:
        ends = [EOS] if boundary == "sentence" else []
        names = [token for text in texts for token in [*text, *ends]]
        scores = map(TokenScore, names, log_prob.tolist(), orders.tolist(), is_unknown.tolist())
        return [[*itertools.islice(scores, length)] for length in np.bincount(owners, minlength=number).tolist()]
    columns = [np.bincount(owners, weights, number) for weights in (log_prob, None, is_unknown)]
    columns[2] = columns[2].astype(np.int64)
    return [SentenceScore(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
