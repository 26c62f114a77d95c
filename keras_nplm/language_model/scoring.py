"""Score sentences: log-probabilities of texts under a language model, each distinct n-gram
evaluated once.
"""

import dataclasses
import io
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from keras_nplm.data.ids import EOS, UNK_ID, find_distinct_rows
from keras_nplm.data.ngram_arrays import gather_ngrams
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


def score_sentences(
    scorer: Scorer,
    sentences: Sequence[str],
    *,
    min_log_prob: float = -np.inf,
    in_order: bool = False,
    by_token: bool = False,
    context: bytearray | None = None,
    scores_blank: bool = False,
) -> list[SentenceScore] | list[list[TokenScore]]:
    """Return the log-probability of each sentence, or of its tokens; without `context` each
    sentence is a text.

        ln P(sentence) = sum_t ln P(w_t | w_{t-n+1} … w_{t-1})

    An n-gram that occurs several times is evaluated once, but with `in_order` where it stands, for
    a model that learns. A blank sentence is none: it has 0 tokens and the log-probability 0. But
    with `scores_blank` it has ln P(</s>), if the model predicts `</s>`. A `context` is the state
    before the sentences of one text, and then that after them. A blank sentence resets it.

    Reference: Schwenk (2007), Continuous space language models, section 4.2.
    """
    model = scorer.model
    number = len(sentences)
    texts = [*map(scorer.split_line, sentences)]
    flat = io.BytesIO(scorer.encode_tokens([*itertools.chain.from_iterable(texts)]))
    ends = (scorer.end_ids if text or scores_blank else b"" for text in texts)
    ids = [flat.read(ID_BYTES * len(text)) + end for text, end in zip(texts, ends, strict=True)]
    paths = (
        [scorer.begin() + one for one in ids]
        if context is None
        else [*_join_paths(context, ids, scorer.begin())]
    )
    tokens, positions, owners = arrange_paths(paths, ids)
    log_prob = np.empty(len(positions))
    orders = np.empty(len(positions), np.int64)
    # most often one block
    for block in row_blocks(len(positions), min(2 * BATCH_CHARACTERS, _IDS // model.order)):
        ngrams = gather_ngrams(tokens, positions[block], model.order)
        distinct = ngrams
        which = slice(None)
        if not in_order:
            distinct, which = find_distinct_rows(ngrams, keep_order=model.order > _LONG_CONTEXT)
        log_prob[block] = np.maximum(
            model.log_prob(distinct[:, :-1], distinct[:, -1]), min_log_prob
        )[which]
        if by_token:
            orders[block] = model.find_orders(distinct[:, :-1], distinct[:, -1])[which]
    is_unknown = tokens[positions] == UNK_ID
    if by_token:
        names = [[*text, EOS][: len(one) // ID_BYTES] for text, one in zip(texts, ids, strict=True)]
        flat_names = itertools.chain.from_iterable(names)
        scores = map(
            TokenScore, flat_names, log_prob.tolist(), orders.tolist(), is_unknown.tolist()
        )
        return [[*itertools.islice(scores, len(some))] for some in names]
    columns = [np.bincount(owners, weights, number) for weights in (log_prob, None, is_unknown)]
    columns[2] = columns[2].astype(np.int64)
    return [
        SentenceScore(*row) for row in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _join_paths(context: bytearray, ids: Sequence[bytes], begin: State) -> Iterator[bytes]:
    """Yield the path of each sentence of a text: the state after the sentences before, and its
    ids.
    """
    for one in ids:
        yield (path := bytes(context) + one)
        context[:] = path[len(path) - len(begin) :] if one else begin
