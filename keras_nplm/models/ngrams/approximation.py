"""Convert any language model to a back-off n-gram model (ARPA), by the n-gram counts that it
expects in a text.
"""

import numpy as np

from keras_nplm.data.boundary import crosses_sentences, predicted_ids
from keras_nplm.data.ids import BOS_ID, EOS_ID
from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions
from keras_nplm.io.errors import check_integer
from keras_nplm.io.progress import open_progress
from keras_nplm.models.base import NextWordModel, choose_boundary, row_blocks
from keras_nplm.models.defaults import MIN_EXPECTED_COUNT, ORDER
from keras_nplm.models.ngrams.backoff import BackoffModel, backoff_mass
from keras_nplm.models.ngrams.counts import NgramCounts, count_ngrams
from keras_nplm.models.ngrams.kneser_ney import compute_logs
from keras_nplm.models.ngrams.tables import find, find_followers

UNSEEN_SHARE = 0.02  # of a new text's tokens, after contexts that list no n-gram
_FITTING_ROUNDS = 8
_BLOCK_NUMBERS = 1 << 21  # probabilities in a block
MAX_BLOCK_SIZE = 1024  # contexts in a block


def approximate(
    model: NextWordModel,
    ids: np.ndarray,
    order: int = ORDER,
    boundary: str | None = None,
    min_expected_count: float = MIN_EXPECTED_COUNT,
) -> BackoffModel:
    """Approximate a language model of order n or higher by a back-off n-gram model, for export as
    an ARPA file.

        c(h w) = sum over the text's contexts C that end in h of P(w | C),
        P(w | h) = c(h w) / c(h)

    c(h w) is the count that the model expects where the text has c(h). The n-grams of the text are
    listed, and other n-grams with an expected count above `min_expected_count`. `prune` then
    selects n-grams, and `fit_unigrams` fits the unigrams below them.

    Reference: Arisoy, Chen, Ramabhadran & Sethy (2014), Converting neural network language models
    into back-off language models for efficient decoding in automatic speech recognition.

    Example: a trigram model as a bigram model.

    >>> from keras_nplm import kneser_ney
    >>> ids = np.array([4, 5, 4, 6, 4, 5, 6, 4, 5, 5, 4, 6] * 3)
    >>> trigram = kneser_ney(ids, 7, order=3, boundary="stream")
    >>> bigram = approximate(trigram, ids, order=2)
    >>> bigram.num_ngrams
    [4, 12]
    >>> round(float(np.exp(bigram.log_prob([[4]], [5])[0])), 3)
    0.539
    """
    check_integer("order", order, 2, most=model.order)
    boundary = choose_boundary(model, boundary)
    text = count_ngrams(ids, model.vocabulary_size, order, boundary)
    unigram, tables = _expect_counts(model, text, ids, boundary, min_expected_count)
    log_unigram = compute_logs(unigram / unigram.sum())
    keys, log_probs = _estimate_probabilities(text, tables)
    return BackoffModel.normalised(text.contexts, log_unigram, keys, log_probs, boundary)


def fit_unigrams(model: BackoffModel, marginals: np.ndarray) -> BackoffModel:
    """Fit the unigrams of a back-off model so that its word frequencies are given marginals, ln
    P(w) [|V|].

        p(w) sum_{v: v w unlisted} P(v) γ(v) = P(w) - sum_{v: v w listed} P(v) P(w | v)

    The unigram of w is used only after words v for which v w is not listed, as in Kneser-Ney's
    lower orders. A share of 0.02 of the text is assumed to follow words that list no n-gram.

    Reference: Kneser & Ney (1995), Improved backing-off for m-gram language modeling.

    Example: after `prune`, the unigrams fit the n-grams that are left.

    >>> from keras_nplm import kneser_ney, prune
    >>> ids = np.array([4, 5, 4, 6, 4, 5, 6, 4, 5, 5, 4, 6] * 3)
    >>> bigram = approximate(kneser_ney(ids, 7, order=3, boundary="stream"), ids, order=2)
    >>> pruned = prune(bigram, threshold=0.003)
    >>> fitted = fit_unigrams(pruned, bigram.unigrams)
    >>> [round(float(np.exp(model.log_prob([[4]], [5])[0])), 3) for model in (pruned, fitted)]
    [0.503, 0.507]
    """
    if model.order == 1:  # no context, after which a unigram would not be used
        return model
    size = model.vocabulary_size
    before, words = np.divmod(model.keys[0], size)
    p = np.exp(model.log_probs[0], dtype=np.float64)
    marginal = np.exp(marginals, dtype=np.float64)
    context = marginal.copy()
    if model.boundary is not None and not crosses_sentences(model.boundary):
        # each </s> but the last is followed by <s>
        context[BOS_ID] = marginal[EOS_ID]
        context[EOS_ID] = 0
    listed = np.bincount(words, context[before] * p, minlength=size)
    rest = np.maximum(marginal - listed, 0)
    unigram = marginal
    above = backoff_mass(before, p, size)
    for _ in range(_FITTING_ROUNDS):
        weight = context * above / backoff_mass(before, unigram[words], size)  # P(v) γ(v)
        used = weight.sum() - np.bincount(words, weight[before], minlength=size)
        unigram = (rest + UNSEEN_SHARE * marginal) / (used + UNSEEN_SHARE)
        unigram /= unigram.sum()
    log_unigram = compute_logs(unigram)
    return BackoffModel.normalised(
        model.contexts, log_unigram, model.keys, model.log_probs, model.boundary
    )


def _find_distinct_contexts(
    ids: np.ndarray, order: int, boundary: str, vocabulary_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct contexts, int32 [D, n-1], sorted from the last word backwards, and their
    numbers [D].
    """
    tokens, positions = ngram_positions(ids, order, boundary)
    # the number of the words so far, from the last word backwards
    path = np.zeros(len(positions), np.int64)
    for length in range(1, order):
        words = tokens[positions - length].astype(np.int64)
        _, first, path, frequency = np.unique(
            path * vocabulary_size + words,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
    return gather_ngrams(tokens, positions[first], order)[:, :-1], frequency


def _expect_counts(
    model: NextWordModel, text: NgramCounts, ids: np.ndarray, boundary: str, min_count: float
) -> tuple[np.ndarray, list["_ExpectedCounts"]]:
    """Return c(w), float64 [|V|], and for k = 2 … n the table of c(h w), in one pass over the
    distinct contexts.
    """
    size = model.vocabulary_size
    contexts, frequencies = _find_distinct_contexts(ids, model.order, boundary, size)
    # the number of the last 1, 2, … words of each context; -1 if the text does not list them
    nodes = np.full((len(text.keys) - 1, len(contexts)), -1)
    for k, (rows, numbers) in enumerate(text.contexts.walk(contexts)):
        nodes[k, rows] = numbers
    never = np.setdiff1d(np.arange(size), predicted_ids(size, boundary))
    unigram = np.zeros(size)
    tables = [_ExpectedCounts(keys, size, min_count) for keys in text.keys[1:]]
    block_size = max(1, min(MAX_BLOCK_SIZE, _BLOCK_NUMBERS // size))
    with open_progress("Expected counts", len(contexts), " contexts") as progress:
        for block in row_blocks(len(contexts), block_size):
            log_probs = model.next_log_probs(contexts[block])
            counts = np.exp(log_probs.astype(np.float32, copy=False))  # [B, |V|]
            counts[:, never] = 0
            factors = frequencies[block] / counts.sum(axis=1)
            counts *= factors[:, None].astype(np.float32)
            unigram += counts.sum(axis=0)
            for table, numbers in zip(tables, nodes[:, block], strict=True):
                table.add(numbers, counts)
            progress.update(len(counts))
    for table in tables:
        table.add(np.array([-1]), np.zeros((1, size)))
    return unigram, tables


class _ExpectedCounts:
    """The n-grams of one order with their expected counts, sorted by key: those of the text, and
    all above `min_count`.

    Attributes: `keys` and `counts`, in blocks.
    """

    def __init__(self, text_keys: np.ndarray, vocabulary_size: int, min_count: float):
        self.keys: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self._text_keys = text_keys
        self._size = vocabulary_size
        self._min_count = min_count
        # the last context so far, and its counts: the next contexts may continue it
        self._node = -1
        self._sum = np.zeros(vocabulary_size)

    def add(self, nodes: np.ndarray, counts: np.ndarray) -> None:
        """Add the counts of every word, [B, |V|], in contexts by their numbers, [B], or -1.

        Equal numbers follow each other, also from one call to the next. A last call with -1 ends
        the table.
        """
        first = np.flatnonzero(np.diff(nodes, prepend=-2))
        nodes = nodes[first]
        sums = np.add.reduceat(counts, first, axis=0).astype(np.float64)
        if nodes[0] == self._node:
            sums[0] += self._sum
        else:
            nodes = np.append(self._node, nodes)
            sums = np.vstack([self._sum, sums])
        self._list(nodes[:-1], sums[:-1].astype(np.float32))
        self._node = nodes[-1]
        self._sum = sums[-1]

    def _list(self, nodes: np.ndarray, counts: np.ndarray) -> None:
        """List the n-grams of complete contexts."""
        is_listed = counts > self._min_count
        owner, place = find_followers(self._text_keys, nodes, self._size)
        is_listed[owner, self._text_keys[place] % self._size] = True
        is_listed[nodes < 0] = False
        rows, words = is_listed.nonzero()
        self.keys.append(nodes[rows] * self._size + words)
        self.counts.append(counts[rows, words])


def _estimate_probabilities(
    text: NgramCounts, tables: list[_ExpectedCounts]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the keys and ln P = ln c(h w) / c(h) of the listed n-grams of orders 2 … n."""
    size = text.contexts.vocabulary_size
    all_keys: list[np.ndarray] = []
    log_probs: list[np.ndarray] = []
    for k, table in enumerate(tables, start=2):
        keys = np.concatenate(table.keys)
        counts = np.concatenate(table.counts)
        if k > 2:
            # by rounding, an n-gram just above `min_count` may be listed without its ending
            has_ending = find(all_keys[-1], text.contexts.find_endings(k, keys)) >= 0
            keys = keys[has_ending]
            counts = counts[has_ending]
        num_contexts = text.contexts.sizes[k - 2]
        context_counts = np.bincount(text.nodes(k), text.counts[k - 1], minlength=num_contexts)
        logs = compute_logs(counts / context_counts[keys // size])
        all_keys.append(keys)
        # by rounding, a logarithm may be above 0
        log_probs.append(np.minimum(logs, 0))
    return all_keys, log_probs
