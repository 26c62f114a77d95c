"""Pruning of back-off models by relative entropy: the n-grams that change the distribution least are left out."""

import dataclasses
import math

import numpy as np

from keras_nplm.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from keras_nplm.io.errors import InputError
from keras_nplm.models.ngrams.backoff import BackoffModel, backoff_log_probs, unlisted_mass
from keras_nplm.models.ngrams.counts import ContextTrie, find

_LEAST_THRESHOLD = 1e-12
_STEPS, _NEARLY = 16, 0.99  # of the search for the threshold that leaves so many n-grams; how many of them suffice


def prune(model: BackoffModel, threshold: float = 0.0, max_ngrams: int | None = None) -> BackoffModel:
    """Leave out the n-grams without which the perplexity of the model's own text would rise by less than a threshold.

    Each n-gram is weighed by Stolcke's `perplexity_changes`, with all others there, and those that stay are weighed
    again as others go: that changes γ, and with it their worth. (Weighed once, all n-grams of a context that lists
    nearly every word seem worth nothing: without any one of them γ would be what it had.) An n-gram stays that is the
    beginning or the ending of one that stays, as readers of ARPA files want it; unigrams stay. Back-off weights are
    worked out anew, so that every context has a distribution. The history's probability is the model's own: right where
    lower orders are marginals, as in what `approximate` makes, and poor for Kneser-Ney, whose lower orders are not.

    Args:
        model: any back-off model.
        threshold: θ, the relative change of perplexity below which an n-gram goes; 0: all stay.
        max_ngrams: the threshold is raised until so many n-grams are left at most, those of all orders together.

    Raises:
        InputError: an option is out of range; the unigrams alone are more than `max_ngrams`.

    Example:

    >>> from keras_nplm.models.ngrams import kneser_ney
    >>> text = np.random.default_rng(0).zipf(1.5, 2000) % 90 + 4
    >>> model = kneser_ney(text, vocabulary_size=94, order=3, boundary="stream")
    >>> model.num_ngrams, prune(model, 1e-4).num_ngrams, prune(model, max_ngrams=300).num_ngrams
    ([91, 561, 1179], [91, 501, 259], [91, 172, 35])

    Reference: Stolcke (1998), Entropy-based pruning of backoff language models; Chelba, Brants, Neveitt & Xu (2010),
    Study on interaction between entropy pruning and Kneser-Ney smoothing.
    """
    check_threshold(threshold)
    unigrams = model.num_ngrams[0]
    if max_ngrams is not None and max_ngrams < unigrams:
        raise InputError(f"`max_ngrams` must be {unigrams} or more, the unigrams, which stay. Received: {max_ngrams}.")
    if model.order == 1:
        return model
    orders, needs = _orders(model), _needs(model)
    kept = _kept(orders, needs, threshold) if threshold else [np.ones(len(order.p), bool) for order in orders]
    if max_ngrams is not None and _number(kept) > max_ngrams - unigrams:
        kept = _fewer(orders, needs, kept, max_ngrams - unigrams, threshold)
    return _restricted(model, kept)


def check_threshold(threshold: float) -> None:
    """Refuse what is no threshold for `prune`.

    Raises:
        InputError: it is negative or not finite.
    """
    if not 0 <= threshold < math.inf:
        raise InputError(f"The threshold of pruning must be 0 or more. Received: {threshold}.")


def perplexity_changes(model: BackoffModel) -> list[np.ndarray]:
    """By how much, relatively, perplexity rises without each n-gram, all others being there.

        D = -P(h) {P(w|h) [ln P(w|h') + ln γ'(h) - ln P(w|h)] + [ln γ'(h) - ln γ(h)] sum_u P(u|h)},    exp(D) - 1

    D is the relative entropy of the model with and without h w, u the words not listed after h, γ' what γ becomes, and
    P(h) the product of the model's probabilities of h's words; that of `<s>` is taken to be that of `</s>`.

    Returns:
        for k = 2 … n of each n-gram, in the order of `model.keys`: float64 [N_k].

    Reference: Stolcke (1998), equations 2 to 5.
    """
    return [order.changes()[0] for order in _orders(model)]


@dataclasses.dataclass(frozen=True)
class _Order:
    """What the worth of the n-grams h w of one order depends on.

    Attributes:
        nodes: h, int64 [N].
        p: P(w|h).
        q: P(w|h').
        history: P(h).
        number: of contexts.
    """

    nodes: np.ndarray
    p: np.ndarray
    q: np.ndarray
    history: np.ndarray
    number: int

    def changes(self) -> tuple[np.ndarray, np.ndarray]:
        """The relative change of perplexity without each n-gram, and the unlisted mass of its context: float64 [N]."""
        p, q, nodes = self.p, self.q, self.nodes
        above, below = (unlisted_mass(nodes, listed, self.number)[nodes] for listed in (p, q))
        log_gamma, log_gamma_without = np.log(above / below), np.log((above + p) / (below + q))
        with np.errstate(divide="ignore", invalid="ignore"):  # a word of probability 0 costs nothing
            entropy = -p * (np.log(q / p) + log_gamma_without) - above * (log_gamma_without - log_gamma)
        return np.expm1(self.history * np.where(p > 0, entropy, 0.0)), above

    def some(self, places: np.ndarray) -> "_Order":
        """Those at some places."""
        return _Order(self.nodes[places], self.p[places], self.q[places], self.history[places], self.number)

    def staying(self, threshold: float, stay: np.ndarray, needed: np.ndarray) -> np.ndarray:
        """Which of those that `stay`, bool [N], are worth a threshold or `needed`.

        After one context so much mass is left out at a time as was not listed before, so that γ, which the worth of
        the others depends on, never more than about doubles between two weighings.
        """
        places = np.flatnonzero(stay)
        while True:
            there = self.some(places)
            change, above = there.changes()
            going = np.flatnonzero((change < threshold) & ~needed[places])
            going = going[np.lexsort((there.p[going], change[going], there.nodes[going]))]
            nodes, mass = there.nodes[going], np.cumsum(there.p[going])
            first = np.diff(nodes, prepend=-1) > 0
            run = np.cumsum(first) - 1
            mass -= (mass - there.p[going])[first][run]  # of this one and those before it in the context
            going = going[first | (mass <= above[going])]
            if not len(going):
                break
            places = np.delete(places, going)
        stay = np.zeros(len(stay), bool)
        stay[places] = True
        return stay


def _orders(model: BackoffModel) -> list[_Order]:
    orders = []
    for k, keys in enumerate(model.keys, start=2):
        nodes, number = keys // model.vocabulary_size, model.contexts.sizes[k - 2]
        p, q = np.exp(model.log_probs[k - 2], dtype=np.float64), np.exp(backoff_log_probs(model, k))
        orders.append(_Order(nodes, p, q, _history(model, k - 1)[nodes], number))
    return orders


def _history(model: BackoffModel, length: int) -> np.ndarray:
    """P(h) of all contexts of a length, float64 [number]."""
    words = model.contexts.words(length)
    padded = np.pad(words, ((0, 0), (model.order - 1, 0)), constant_values=PAD_ID)
    log_prob = model.unigrams[np.where(words[:, 0] == BOS_ID, EOS_ID, words[:, 0])].astype(np.float64)
    for i in range(1, length):
        log_prob += model.log_prob(padded[:, i : i + model.order - 1], words[:, i])
    return np.exp(log_prob)


def _needs(model: BackoffModel) -> list[np.ndarray]:
    """For k = 3 … n where the beginning and the ending of each n-gram are among those of order k-1: [N_k, 2]; or -1."""
    size, needs = model.vocabulary_size, []
    for k in range(3, model.order + 1):
        nodes, last = np.divmod(model.keys[k - 2], size)
        ending = find(model.keys[k - 3], model.contexts.keys[k - 3][nodes] // size * size + last)
        words = model.contexts.words(k - 1)
        beginning = np.full(len(words), -1)
        for length, (rows, parents) in enumerate(model.contexts.walk(words[:, :-1]), start=1):
            if length == k - 2:
                beginning[rows] = find(model.keys[k - 3], parents * size + words[rows, -1])
        needs.append(np.column_stack([beginning[nodes], ending]))
    return needs


def _kept(
    orders: list[_Order], needs: list[np.ndarray], threshold: float, kept: list[np.ndarray] | None = None
) -> list[np.ndarray]:
    """Which n-grams stay, bool [N_k] for k = 2 … n, of all or of those that a lower threshold has kept."""
    kept = [np.ones(len(order.p), bool) for order in orders] if kept is None else list(kept)
    needed = np.zeros(len(orders[-1].p), bool)
    for k in range(len(orders) - 1, -1, -1):
        kept[k] = orders[k].staying(threshold, kept[k], needed)
        if k:
            needed = np.zeros(len(orders[k - 1].p), bool)
            places = needs[k - 1][kept[k]].ravel()
            needed[places[places >= 0]] = True
    return kept


def _fewer(
    orders: list[_Order], needs: list[np.ndarray], kept: list[np.ndarray], most: int, threshold: float
) -> list[np.ndarray]:
    """Which of those that a threshold has kept stay at one that leaves so many at most, and hardly fewer."""
    few, low, high = [np.zeros_like(mask) for mask in kept], math.log(max(threshold, _LEAST_THRESHOLD)), 0.0
    for _ in range(_STEPS):
        logs = np.log1p([_number(kept), most, _number(few)])  # about linear in ln θ
        share = min(max((logs[0] - logs[1]) / (logs[0] - logs[2]), 0.1), 0.9)
        middle = low + share * (high - low)
        tried = _kept(orders, needs, math.exp(middle), kept)
        if _number(tried) > most:
            low, kept = middle, tried
            continue
        high, few = middle, tried
        if _number(few) > _NEARLY * most:
            break
    return few


def _number(kept: list[np.ndarray]) -> int:
    return sum(int(np.count_nonzero(mask)) for mask in kept)


def _restricted(model: BackoffModel, kept: list[np.ndarray]) -> BackoffModel:
    """The model of some of the n-grams, with the contexts that they have alone."""
    size = model.vocabulary_size
    used = [np.zeros(number, bool) for number in model.contexts.sizes]
    for there, keys, mask in zip(used, model.keys, kept, strict=True):
        there[keys[mask] // size] = True
    for k in range(len(used) - 1, 1, -1):  # a context's ending is one, too
        used[k - 1][model.contexts.keys[k - 1][used[k]] // size] = True
    numbers = [np.arange(size), *(np.cumsum(there) - 1 for there in used[1:])]

    def renumbered(keys: np.ndarray, number: np.ndarray) -> np.ndarray:
        nodes, words = np.divmod(keys, size)
        return number[nodes] * size + words

    contexts = [
        renumbered(keys[there], number)
        for keys, there, number in zip(model.contexts.keys, used[1:], numbers, strict=False)
    ]
    keys = [renumbered(keys[mask], number) for keys, mask, number in zip(model.keys, kept, numbers, strict=True)]
    log_probs = [log_probs[mask] for log_probs, mask in zip(model.log_probs, kept, strict=True)]
    return BackoffModel.normalised(ContextTrie(size, contexts), model.unigrams, keys, log_probs, model.boundary)
