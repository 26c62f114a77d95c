"""Score sentences: log-probabilities of texts under a language model, each distinct n-gram
evaluated once.
"""

import dataclasses
import io
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import EOS, UNK_ID, find_distinct_rows
from keras_nplm.data.ngram_arrays import gather_ngrams
from keras_nplm.data.word_counts import batch_by_size
from keras_nplm.language_model.scorer import ID_BYTES, Scorer, State, arrange_paths
from keras_nplm.models.base import row_blocks

# ln P of an impossible n-gram, as in ARPA files: keeps all features finite
MIN_LOG_PROB = -99 * math.log(10)
# of sentences that are scored together; above the batches of `rescoring.features`
BATCH_CHARACTERS = 1 << 21
_IDS = 1 << 25  # ids of n-grams that are scored together: a cache has hundreds of words of context
# words of context from which n-grams are scored in the order of the text, as caches need it
_LONG_CONTEXT = 64


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


class _Ngrams(NamedTuple):
    """The n-grams of lines: each ends at a position in the tokens."""

    tokens: np.ndarray
    positions: np.ndarray
    owners: np.ndarray  # the line of each
    names: list[list[str]]  # of the predicted tokens of each line

    @property
    def is_unknown(self) -> np.ndarray:
        return self.tokens[self.positions] == UNK_ID


@dataclasses.dataclass(frozen=True)
class LineScorer:
    """Score lines of text, in batches.

    Attributes:
        scorer: the scorer of the model.
        min_log_prob: a lower bound of ln P of one n-gram.
        learns: whether the model learns from each line before it scores the next. Then each n-gram
            is evaluated where it stands. If not, one that occurs several times is evaluated once.
        is_one_text: whether a context includes the lines before, up to a blank line. If not, each
            line is a text.
        scores_blank: whether a blank line has ln P(</s>), if the model predicts `</s>`. If not, it
            is no sentence: it has 0 tokens and the log-probability 0.
    """

    scorer: Scorer
    min_log_prob: float = -np.inf
    learns: bool = False
    is_one_text: bool = False
    scores_blank: bool = False

    def score_sentences(self, lines: Iterable[str]) -> Iterator[SentenceScore]:
        """Iterate over the log-probabilities of lines.

            ln P(sentence) = sum_t ln P(w_t | w_{t-n+1} … w_{t-1})

        Reference: Schwenk (2007), Continuous space language models, section 4.2.
        """
        for ngrams, log_prob, _ in self._evaluate_batches(lines):
            number = len(ngrams.names)
            # of no n-gram NumPy returns integers
            sums = np.bincount(ngrams.owners, log_prob, number).astype(np.float64)
            tokens = np.bincount(ngrams.owners, minlength=number)
            unknown = np.bincount(ngrams.owners, ngrams.is_unknown, number).astype(np.int64)
            yield from map(SentenceScore, sums.tolist(), tokens.tolist(), unknown.tolist())

    def score_tokens(self, lines: Iterable[str]) -> Iterator[list[TokenScore]]:
        """Iterate over the scores of the tokens of each line: ln P, the order of the n-gram,
        unknown.
        """
        for ngrams, log_prob, orders in self._evaluate_batches(lines, with_orders=True):
            scores = map(
                TokenScore,
                itertools.chain.from_iterable(ngrams.names),
                log_prob.tolist(),
                orders.tolist(),
                ngrams.is_unknown.tolist(),
            )
            for names in ngrams.names:
                yield [*itertools.islice(scores, len(names))]

    def _evaluate_batches(
        self, lines: Iterable[str], with_orders: bool = False
    ) -> Iterator[tuple[_Ngrams, np.ndarray, np.ndarray]]:
        """Yield the n-grams of each batch of lines, ln P of each, float64 [N], and its order, int64
        [N], 0 unless asked for.
        """
        context = self.scorer.begin()
        # a model that learns reads line by line
        for batch in batch_by_size(lines, 0 if self.learns else BATCH_CHARACTERS):
            ngrams, context = self._arrange(batch, context)
            yield ngrams, *self._evaluate(ngrams, with_orders)
            if self.learns:
                self.scorer.model.learn_rest()

    def _arrange(self, lines: Sequence[str], context: State) -> tuple[_Ngrams, State]:
        """Return the n-grams of the predicted tokens of lines, and the state after these lines."""
        # a blank line has no tokens: it is no sentence, as in training and in `evaluate`
        texts = [*map(self.scorer.tokenizer.split_sentence, lines)]
        # all tokens are looked up together, and then cut into lines
        flat = io.BytesIO(self.scorer.encode_tokens([*itertools.chain.from_iterable(texts)]))
        ids = []
        names = []
        paths = []
        for text in texts:
            ends = self.scorer.end_ids if text or self.scores_blank else b""
            ids.append(flat.read(ID_BYTES * len(text)) + ends)
            names.append([*text, EOS] if ends else text)
            paths.append(context + ids[-1])
            if self.is_one_text:
                # a blank line ends a document
                context = paths[-1][len(ids[-1]) :] if ids[-1] else self.scorer.begin()
        return _Ngrams(*arrange_paths(paths, ids, self.scorer.model.order), names), context

    def _evaluate(self, ngrams: _Ngrams, with_orders: bool) -> tuple[np.ndarray, np.ndarray]:
        model = self.scorer.model
        number = len(ngrams.positions)
        log_prob = np.empty(number)
        orders = np.zeros(number, np.int64)
        # most often one block
        for block in row_blocks(number, min(2 * BATCH_CHARACTERS, _IDS // model.order)):
            rows = gather_ngrams(ngrams.tokens, ngrams.positions[block], model.order)
            which: np.ndarray | slice = slice(None)
            if not self.learns:
                rows, which = find_distinct_rows(rows, keep_order=model.order > _LONG_CONTEXT)
            contexts = rows[:, :-1]
            targets = rows[:, -1]
            found = np.maximum(model.log_prob(contexts, targets), self.min_log_prob)
            log_prob[block] = found[which]
            if with_orders:
                orders[block] = model.find_orders(contexts, targets)[which]
        return log_prob, orders
