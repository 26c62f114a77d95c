"""Score sentences: log-probabilities of texts under a language model, each distinct n-gram
evaluated once.
"""

import dataclasses
import io
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from keras_nplm.data.ids import EOS, UNK_ID, find_distinct_rows
from keras_nplm.data.ngram_arrays import gather_ngrams
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.language_model.scorer import ID_BYTES, Scorer, State, arrange_paths
from keras_nplm.models.base import NextWordModel, row_blocks

# ln P of an impossible n-gram, as in ARPA files: keeps all features finite
MIN_LOG_PROB = -99 * math.log(10)
# of sentences that are scored together; above the batches of `rescoring.features`
BATCH_CHARACTERS = 1 << 21
_IDS = 1 << 25  # ids of n-grams that are scored together: a cache has hundreds of words of context
# words of context from which n-grams are scored in the order of the text, as caches need it
_LONG_CONTEXT = 64


Score = TypeVar("Score")


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
    # of the n-gram: the longest that an n-gram model lists; else all words of the context count
    order: int
    is_unknown: bool  # whether the token is out of the vocabulary


@dataclasses.dataclass(frozen=True)
class ScoringOptions:
    """How sentences are scored.

    Attributes:
        min_log_prob: a lower bound of ln P of one n-gram.
        in_order: whether each n-gram is evaluated where it stands, for a model that learns. If not,
            an n-gram that occurs several times is evaluated once.
        scores_blank: whether a blank sentence has ln P(</s>), if the model predicts `</s>`. If not,
            it is no sentence: it has 0 tokens and the log-probability 0.
        context: the state before the sentences of one text, and then that after them; a blank
            sentence resets it. None: each sentence is a text.
    """

    min_log_prob: float = -np.inf
    in_order: bool = False
    scores_blank: bool = False
    context: bytearray | None = None


_PLAIN = ScoringOptions()


def iterate_scores(
    score: Callable[[Scorer, Sequence[str], ScoringOptions], list[Score]],
    scorer: Scorer,
    lines: Iterable[str],
    options: ScoringOptions = _PLAIN,
) -> Iterator[Score]:
    """Iterate over the scores of lines, in batches; `score` is one of the functions below.

    With `in_order` the model learns from each line before it scores the next.
    """
    if options.in_order:
        for line in lines:
            yield from score(scorer, [line], options)
            scorer.model.learn_rest()
        return
    for batch in batch_by_size(lines, BATCH_CHARACTERS):
        yield from score(scorer, batch, options)


def score_sentences(
    scorer: Scorer, sentences: Sequence[str], options: ScoringOptions = _PLAIN
) -> list[SentenceScore]:
    """Return the log-probability of each sentence.

        ln P(sentence) = sum_t ln P(w_t | w_{t-n+1} … w_{t-1})

    Reference: Schwenk (2007), Continuous space language models, section 4.2.
    """
    ngrams = _arrange(scorer, sentences, options)
    log_prob, _ = _evaluate(scorer.model, ngrams, options)
    number = len(sentences)
    # of no n-gram NumPy returns integers
    sums = np.bincount(ngrams.owners, log_prob, number).astype(np.float64)
    tokens = np.bincount(ngrams.owners, minlength=number)
    unknown = np.bincount(ngrams.owners, ngrams.is_unknown, number).astype(np.int64)
    rows = zip(sums.tolist(), tokens.tolist(), unknown.tolist(), strict=True)
    return [SentenceScore(*row) for row in rows]


def score_tokens(
    scorer: Scorer, sentences: Sequence[str], options: ScoringOptions = _PLAIN
) -> list[list[TokenScore]]:
    """Return the scores of the tokens of each sentence: ln P, the order of the n-gram, unknown."""
    ngrams = _arrange(scorer, sentences, options)
    log_prob, orders = _evaluate(scorer.model, ngrams, options, with_orders=True)
    scores = map(
        TokenScore,
        itertools.chain.from_iterable(ngrams.names),
        log_prob.tolist(),
        orders.tolist(),
        ngrams.is_unknown.tolist(),
    )
    return [list(itertools.islice(scores, len(names))) for names in ngrams.names]


class _Ngrams(NamedTuple):
    """The n-grams of sentences: each ends at a position in the tokens."""

    tokens: np.ndarray
    positions: np.ndarray
    owners: np.ndarray  # the sentence of each
    names: list[list[str]]  # of the predicted tokens of each sentence

    @property
    def is_unknown(self) -> np.ndarray:
        return self.tokens[self.positions] == UNK_ID


def _arrange(scorer: Scorer, sentences: Sequence[str], options: ScoringOptions) -> _Ngrams:
    """Encode sentences, and find the n-grams of their predicted tokens."""
    # a blank line has no tokens: it is no sentence, as in training and in `evaluate`
    texts = [*map(scorer.tokenizer.split_sentence, sentences)]
    # all tokens are looked up together, and then cut into sentences
    flat = io.BytesIO(scorer.encode_tokens([*itertools.chain.from_iterable(texts)]))
    ids = []
    names = []
    for text in texts:
        ends = scorer.end_ids if text or options.scores_blank else b""
        ids.append(flat.read(ID_BYTES * len(text)) + ends)
        names.append([*text, EOS] if ends else text)
    begin = scorer.begin()
    if options.context is None:
        paths = [begin + sentence for sentence in ids]
    else:
        paths = [*_join_paths(options.context, ids, begin)]
    return _Ngrams(*arrange_paths(paths, ids), names)


def _evaluate(
    model: NextWordModel, ngrams: _Ngrams, options: ScoringOptions, with_orders: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return ln P of each n-gram, float64 [N], and its order, int64 [N], 0 unless asked for."""
    number = len(ngrams.positions)
    log_prob = np.empty(number)
    orders = np.zeros(number, np.int64)
    keeps_order = model.order > _LONG_CONTEXT
    # most often one block
    for block in row_blocks(number, min(2 * BATCH_CHARACTERS, _IDS // model.order)):
        rows = gather_ngrams(ngrams.tokens, ngrams.positions[block], model.order)
        which: np.ndarray | slice = slice(None)
        if not options.in_order:
            rows, which = find_distinct_rows(rows, keep_order=keeps_order)
        contexts = rows[:, :-1]
        targets = rows[:, -1]
        found = np.maximum(model.log_prob(contexts, targets), options.min_log_prob)
        log_prob[block] = found[which]
        if with_orders:
            orders[block] = model.find_orders(contexts, targets)[which]
    return log_prob, orders


def _join_paths(context: bytearray, ids: Sequence[bytes], begin: State) -> Iterator[bytes]:
    """Yield the path of each sentence of a text: the state after the sentences before, and its
    ids.
    """
    for one in ids:
        yield (path := bytes(context) + one)
        context[:] = path[len(path) - len(begin) :] if one else begin
