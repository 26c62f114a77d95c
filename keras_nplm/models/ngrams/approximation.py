"""Any language model as a back-off n-gram model, by the n-grams that it expects in a text."""

import numpy as np

from keras_nplm.data.ngram_arrays import gather_ngrams, ngram_positions, predicted_ids
from keras_nplm.data.vocabulary import BOS_ID, EOS_ID
from keras_nplm.io.errors import InputError
from keras_nplm.io.progress import Progress
from keras_nplm.models.base import NextWordModel, choose_boundary, row_blocks
from keras_nplm.models.mixture import Mixture
from keras_nplm.models.ngrams.backoff import BackoffModel, unlisted_mass
from keras_nplm.models.ngrams.counts import (
    ContextTrie,
    NgramCounts,
    count_ngrams,
    find,
    followers,
)

ORDER = 3  # beyond which little is gained: most longer contexts of a new text are new
MIN_EXPECTED_COUNT = 0.02
_UNSEEN = 0.02  # the share of contexts of which nothing is listed, beside those of the text
_FITTING_ROUNDS = 8
_NUMBERS = 1 << 21  # probabilities asked of the model at a time
_MOST_ROWS = 1024  # contexts asked at a time


def approximate(
    model: NextWordModel,
    ids: np.ndarray,
    order: int = ORDER,
    boundary: str | None = None,
    min_expected_count: float = MIN_EXPECTED_COUNT,
) -> BackoffModel:
    """The back-off model of order n that answers as a model of a higher or the same order does on average over a text.

        c(h w) = sum over the text's contexts C that end in h of P(w | C),    P(w | h) = c(h w) / c(h)

    c is the count that the model expects where the text has c(h): a probability of order n is the model's own if that
    is its order, and one of a lower order is the expectation over the longer contexts, down to the unigrams. Listed are
    the n-grams of the text and those expected more than `min_expected_count` times, which the text need not have; the
    rest of a context's mass goes to the other words as the shorter context distributes it. What the model gives to ids
    that are never predicted is left out. Then `prune` finds the n-grams that matter, and `fit_unigrams` the best
    unigrams below them.

    Args:
        model: answers `next_log_probs` for contexts of `model.order` - 1 words.
        ids: the text, int32 [T], each sentence closed by `</s>`: that of training, or any like it.
        order: n, 2 to the model's.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        min_expected_count: how often an n-gram that the text lacks is to be expected; the fewer, the more are listed.

    Returns:
        the model, a distribution in every context.

    Raises:
        InputError: an option is out of range, or the text is empty.

    Example:

    >>> from keras_nplm.models.ngrams import kneser_ney
    >>> text = np.array([4, 5, 6, 4, 5, 4, 3])
    >>> whole = kneser_ney(text, vocabulary_size=8, order=4, boundary="stream")
    >>> print(np.exp(whole.next_log_probs(np.array([[0, 4, 5], [6, 4, 5]]))).mean(axis=0)[[4, 6]].round(3))
    [0.597 0.323]
    >>> model = approximate(whole, text, order=2, boundary="stream")
    >>> print(np.exp(model.next_log_probs(np.array([[5]])))[0, [4, 6]].round(3))
    [0.597 0.323]

    Reference: Arisoy, Chen, Ramabhadran & Sethy (2014), Converting neural network language models into back-off
    language models for efficient decoding in automatic speech recognition.
    """
    if not 2 <= order <= model.order:
        raise InputError(f"`order` must be 2 to {model.order}, that of the model. Received: {order}.")
    if not min_expected_count > 0:
        raise InputError(f"`min_expected_count` must be above 0. Received: {min_expected_count}.")
    boundary = choose_boundary(model, boundary)
    text = count_ngrams(ids, model.vocabulary_size, order, boundary)
    unigram, tables = _expected_counts(model, text, ids, boundary, min_expected_count)
    return BackoffModel.normalised(
        text.contexts, _log(unigram / unigram.sum()), *_probabilities(text, tables), boundary
    )


def fit_unigrams(model: BackoffModel, marginals: np.ndarray) -> BackoffModel:
    """The unigrams with which a back-off model has given marginals.

        p(w) sum_{v: v w unlisted} P(v) γ(v) = P(w) - sum_{v: v w listed} P(v) P(w | v)

    A unigram is asked for after the words alone that do not list w. So it is fitted to what is left of P(w) there, as
    Kneser-Ney's lower orders are, and not to all of P(w): the frequent words, which are listed after most others, get
    less, and the rare ones more. A share of 0.02 of the text is taken to follow words that list nothing.

    Args:
        model: the listed n-grams; what `prune` left of what `approximate` made.
        marginals: ln P(w), float32 [|V|]: the unigrams that `approximate` gave.

    Returns:
        the model with these unigrams, its back-off weights worked out anew.

    Example:

    >>> from keras_nplm.models.ngrams import kneser_ney, prune
    >>> text = np.random.default_rng(0).zipf(1.5, 2000) % 90 + 4
    >>> whole = approximate(kneser_ney(text, 94, order=3, boundary="stream"), text, order=2, boundary="stream")
    >>> pruned = prune(whole, 3e-4)
    >>> fitted = fit_unigrams(pruned, whole.unigrams)
    >>> from keras_nplm.models.evaluation import evaluate
    >>> bool(evaluate(fitted, text)["perplexity"] < evaluate(pruned, text)["perplexity"])
    True

    Reference: Kneser & Ney (1995), Improved backing-off for m-gram language modeling.
    """
    before, words = np.divmod(model.keys[0], model.vocabulary_size)
    number, p = model.vocabulary_size, np.exp(model.log_probs[0], dtype=np.float64)
    marginal = np.exp(marginals, dtype=np.float64)
    context = marginal.copy()
    context[BOS_ID], context[EOS_ID] = marginal[EOS_ID], 0  # after each </s> but the last comes a <s>
    left = np.maximum(marginal - np.bincount(words, context[before] * p, minlength=number), 0)
    unigram, above = marginal, unlisted_mass(before, p, number)
    for _ in range(_FITTING_ROUNDS):
        weight = context * above / unlisted_mass(before, unigram[words], number)  # P(v) γ(v)
        asked = weight.sum() - np.bincount(words, weight[before], minlength=number)
        unigram = (left + _UNSEEN * marginal) / (asked + _UNSEEN)
        unigram /= unigram.sum()
    return BackoffModel.normalised(model.contexts, _log(unigram), model.keys, model.log_probs, model.boundary)


def _distinct_contexts(
    ids: np.ndarray, order: int, boundary: str, vocabulary_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """The contexts of a text, int32 [D, n-1], sorted by their last word, then the one before …; the times each occurs.

    So all that end alike stand together.
    """
    tokens, positions = ngram_positions(ids, order, boundary)
    path = np.zeros(len(positions), np.int64)  # the number of the context so far, from its last word backwards
    for length in range(1, order):
        words = tokens[positions - length].astype(np.int64)
        _, first, path, times = np.unique(
            path * vocabulary_size + words, return_index=True, return_inverse=True, return_counts=True
        )
    return gather_ngrams(tokens, positions[first], order)[:, :-1], times


def _nodes(trie: ContextTrie, contexts: np.ndarray, order: int) -> np.ndarray:
    """The number of the last 1, … n-1 words of each context, int64 [n-1, D]; -1 where it is shorter."""
    nodes = np.full((order - 1, len(contexts)), -1)
    for k, (rows, numbers) in enumerate(trie.walk(contexts)):
        nodes[k, rows] = numbers
    return nodes


def _expected_counts(
    model: NextWordModel, text: NgramCounts, ids: np.ndarray, boundary: str, least: float
) -> tuple[np.ndarray, list["_Table"]]:
    """c(w), float64 [|V|], and for k = 2 … n the table of c(h w): one pass over the text's distinct contexts."""
    size = model.vocabulary_size
    contexts, times = _distinct_contexts(ids, model.order, boundary, size)
    nodes = _nodes(text.contexts, contexts, text.order)
    never = np.setdiff1d(np.arange(size), predicted_ids(size, boundary))
    unigram = np.zeros(size)
    tables, sums = [_Table(keys, size, least) for keys in text.keys[1:]], [_OpenSum(size) for _ in nodes]
    rows = max(1, min(_MOST_ROWS, _NUMBERS // size))
    progress = Progress("Asking the model", len(contexts))
    for part in row_blocks(len(contexts), rows):
        counts = _next_probabilities(model, contexts[part])  # [B, |V|]
        counts[:, never] = 0
        counts *= (times[part] / counts.sum(axis=1))[:, None].astype(np.float32)
        unigram += counts.sum(axis=0)
        above = np.flatnonzero(counts > least)
        for table, open_sum, numbers in zip(tables, sums, nodes[:, part], strict=True):
            alone, ends, summed = open_sum.add(numbers, counts)
            table.add(alone, counts, above)
            table.add(ends, summed)
        progress.add(tokens=len(counts), part=len(counts))
    progress.close()
    for table, open_sum in zip(tables, sums, strict=True):
        table.add(*open_sum.add(np.array([-1]), np.zeros((1, size), np.float32))[1:])
    return unigram, tables


def _next_probabilities(model: NextWordModel, context_ids: np.ndarray) -> np.ndarray:
    """P(w | context) for every word w, float32 [B, |V|]; a mixture's without its logarithms, which take longest."""
    if not isinstance(model, Mixture):
        return np.exp(model.next_log_probs(context_ids).astype(np.float32, copy=False))
    p = np.zeros((len(context_ids), model.vocabulary_size), np.float32)
    for weights, part, seen in model.components(context_ids):
        p += weights[:, None].astype(np.float32) * _next_probabilities(part, seen)
    return p


class _OpenSum:
    """The sums of rows that have one number, where these stand together; the last is open till another number comes.

    The number -1 is none.
    """

    def __init__(self, vocabulary_size: int):
        self._number, self._sum = -1, np.zeros(vocabulary_size)

    def add(self, numbers: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Add rows, float32 [B, |V|], of numbers [B].

        Returns:
            the numbers, but -1 of rows that are not a sum by themselves, int64 [B]; and numbers [R] and sums, float32
            [R, |V|], of those that are complete, or -1.
        """
        first = np.flatnonzero(np.diff(numbers, prepend=-2))
        length = np.diff(first, append=len(numbers))
        several = length > 1
        several[[0, -1]] = True  # what they are part of may have begun before, or go on
        run = np.repeat(np.arange(len(first)), length)
        part_of = np.zeros((np.count_nonzero(several), len(rows)), np.float32)
        part_of[np.cumsum(several)[run] - 1, np.arange(len(rows))] = several[run]
        sums = np.concatenate([self._sum[None], part_of @ rows], dtype=np.float32)
        ends = np.concatenate([[self._number], numbers[first[several]]])
        last = sums[-1].astype(np.float64)
        if ends[0] == ends[1]:
            last += self._sum if len(ends) == 2 else 0
            sums[1] += self._sum
            ends[0] = -1
        self._number, self._sum, ends[-1] = int(ends[-1]), last, -1
        return np.where(several[run], -1, numbers), ends, sums


class _Table:
    """The n-grams of an order that are listed, with their expected counts.

    Args:
        text_keys: of the n-grams of the text, which all are.
        vocabulary_size: |V|.
        least: how often others are to be expected.
    """

    def __init__(self, text_keys: np.ndarray, vocabulary_size: int, least: float):
        self._text_keys, self._size, self._least = text_keys, vocabulary_size, least
        self._keys, self._counts = [], []

    def add(self, nodes: np.ndarray, counts: np.ndarray, above: np.ndarray | None = None) -> None:
        """List what is to be listed of contexts.

        Args:
            nodes: their numbers, int64 [R]; -1 for rows that count for nothing.
            counts: the expected counts of all words after each, float32 [R, |V|].
            above: where these are above the least one, int64, flat, if that is known.
        """
        above = np.flatnonzero(counts > self._least) if above is None else above
        rows, words = np.divmod(above, self._size)
        there = nodes[rows] >= 0
        self._list(nodes, counts, rows[there], words[there])
        rows = np.flatnonzero(nodes >= 0)
        owner, place = followers(self._text_keys, nodes[rows], self._size)
        rows, words = rows[owner], self._text_keys[place] % self._size
        rare = counts[rows, words] <= self._least
        self._list(nodes, counts, rows[rare], words[rare])

    def _list(self, nodes: np.ndarray, counts: np.ndarray, rows: np.ndarray, words: np.ndarray) -> None:
        self._keys.append(nodes[rows] * self._size + words)
        self._counts.append(counts[rows, words])

    def sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The keys, sorted, and the expected count of each."""
        keys = np.concatenate(self._keys)
        by_key = np.argsort(keys)
        return keys[by_key], np.concatenate(self._counts)[by_key]


def _probabilities(text: NgramCounts, tables: list[_Table]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The keys and ln P = ln c(h w) / c(h) of the listed n-grams of orders 2 … n."""
    size, all_keys, log_probs = text.contexts.vocabulary_size, [], []
    for k, table in enumerate(tables, start=2):
        keys, counts = table.sorted()
        if k > 2:  # just at the least count an n-gram may be listed and, by rounding, its ending not
            endings = text.contexts.keys[k - 3][keys // size] // size * size + keys % size
            whole = find(all_keys[-1], endings) >= 0
            keys, counts = keys[whole], counts[whole]
        times = np.bincount(text.nodes(k), text.counts[k - 1], minlength=text.contexts.sizes[k - 2])
        all_keys.append(keys)
        log_probs.append(np.minimum(_log(counts / times[keys // size]), 0))
    return all_keys, log_probs


def _log(probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities).astype(np.float32)
