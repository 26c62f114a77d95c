"""Entropy pruning of back-off n-gram models (Stolcke): remove the n-grams that change the
distribution least.
"""

import dataclasses

import numpy as np

from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID
from keras_nplm.io.errors import check_least
from keras_nplm.models.ngrams.backoff import BackoffModel, backoff_mass, compute_backoff_log_probs
from keras_nplm.models.ngrams.tables import ContextTrie, find


def prune(model: BackoffModel, threshold: float) -> BackoffModel:
    """Prune a back-off n-gram model: remove n-grams whose removal raises perplexity by less than a
    threshold.

    Each n-gram is weighed by Stolcke's formula (see `WeighedOrder.compute_changes`) as if all
    others stayed, and again as others go. Unigrams stay, and the beginning and the ending of a kept
    n-gram. P(h) is the model's own: right where lower orders are marginals, as in the result of
    `approximate`, and poor for Kneser-Ney.

    Reference: Stolcke (1998), Entropy-based pruning of backoff language models; Chelba, Brants,
    Neveitt & Xu (2010), Study on interaction between entropy pruning and Kneser-Ney smoothing.

    Example:

    >>> from keras_nplm import kneser_ney
    >>> ids = np.array([4, 5, 4, 6, 4, 5, 6, 4, 5, 5, 4, 6] * 3)
    >>> trigram = kneser_ney(ids, 7, order=3, boundary="stream")
    >>> trigram.num_ngrams
    [4, 6, 8]
    >>> prune(trigram, threshold=0.1).num_ngrams
    [4, 2, 1]
    """
    check_least("threshold", threshold, 0)
    if model.order == 1 or threshold == 0:
        return model
    return _restrict(model, _select(weigh_orders(model), _find_needs(model), threshold))


@dataclasses.dataclass(frozen=True)
class WeighedOrder:
    """The n-grams h w of one order: the context number of h, P(w|h), P(w|h') and P(h), [N] each."""

    nodes: np.ndarray
    p: np.ndarray
    q: np.ndarray
    history: np.ndarray
    num_contexts: int

    def compute_changes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the relative rise of perplexity without each n-gram, and the unlisted mass of its
        context, [N].

            D = -P(h) {P(w|h) [ln P(w|h') + ln γ'(h) - ln P(w|h)]
                       + [ln γ'(h) - ln γ(h)] sum_u P(u|h)},
            exp(D) - 1

        u are the words not listed after h, and γ' is γ without h w. Reference: Stolcke (1998),
        equations 2 to 5.
        """
        p = self.p
        q = self.q
        nodes = self.nodes
        above = backoff_mass(nodes, p, self.num_contexts)[nodes]
        below = backoff_mass(nodes, q, self.num_contexts)[nodes]
        log_gamma = np.log(above / below)
        log_gamma_without = np.log((above + p) / (below + q))
        # a word of probability 0 costs nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            of_word = -p * (np.log(q / p) + log_gamma_without)
            entropy = of_word - above * (log_gamma_without - log_gamma)
        # nor does one after a context of probability 0
        is_possible = (p > 0) & (self.history > 0)
        return np.expm1(self.history * np.where(is_possible, entropy, 0.0)), above

    def take(self, places: np.ndarray) -> "WeighedOrder":
        return WeighedOrder(
            self.nodes[places],
            self.p[places],
            self.q[places],
            self.history[places],
            self.num_contexts,
        )

    def select(self, threshold: float, needed: np.ndarray) -> np.ndarray:
        """Return which n-grams stay, bool [N]: those that reach the threshold or are `needed`.

        In each round, a context loses at most as much mass as it did not list, or one n-gram: γ at
        most about doubles.
        """
        places = np.arange(len(self.p))
        while True:
            left = self.take(places)
            change, above = left.compute_changes()
            going = np.flatnonzero((change < threshold) & ~needed[places])
            going = going[np.lexsort((left.p[going], change[going], left.nodes[going]))]
            nodes = left.nodes[going]
            mass = np.cumsum(left.p[going])
            first = np.diff(nodes, prepend=-1) > 0
            run = np.cumsum(first) - 1
            # of this n-gram and those before it in the context
            mass -= (mass - left.p[going])[first][run]
            going = going[first | (mass <= above[going])]
            if not len(going):
                break
            places = np.delete(places, going)
        kept = np.zeros(len(self.p), bool)
        kept[places] = True
        return kept


def weigh_orders(model: BackoffModel) -> list[WeighedOrder]:
    """Find P(w|h), P(w|h') and P(h) of the n-grams of each order from 2 on."""
    orders = []
    log_unigrams = model.unigrams.astype(np.float64)
    for k, keys in enumerate(model.keys, start=2):
        words = model.contexts.words(k - 1)
        padded = np.pad(words, ((0, 0), (model.order - 1, 0)), constant_values=PAD_ID)
        # <s> is as frequent as </s>
        first = np.where(words[:, 0] == BOS_ID, EOS_ID, words[:, 0])
        history = log_unigrams[first]
        for i in range(1, k - 1):
            history += model.log_prob(padded[:, i : i + model.order - 1], words[:, i])
        nodes = keys // model.vocabulary_size
        p = np.exp(model.log_probs[k - 2], dtype=np.float64)
        q = np.exp(compute_backoff_log_probs(model, k))
        orders.append(WeighedOrder(nodes, p, q, np.exp(history)[nodes], len(words)))
    return orders


def _find_needs(model: BackoffModel) -> list[np.ndarray]:
    """Return for k = 3 … n the place of the beginning and the ending of each n-gram in order k-1,
    or -1: [N_k, 2].
    """
    size = model.vocabulary_size
    needs = []
    for k in range(3, model.order + 1):
        keys = model.keys[k - 2]
        shorter = model.keys[k - 3]
        beginnings = find(shorter, model.contexts.find_keys(model.contexts.words(k - 1)))
        endings = find(shorter, model.contexts.find_endings(k, keys))
        needs.append(np.column_stack([beginnings[keys // size], endings]))
    return needs


def _select(
    orders: list[WeighedOrder], needs: list[np.ndarray], threshold: float
) -> list[np.ndarray]:
    """Return which n-grams stay, bool [N_k] for k = 2 … n."""
    kept = [np.zeros(len(order.p), bool) for order in orders]
    needed = np.zeros(len(orders[-1].p), bool)
    for k in range(len(orders) - 1, -1, -1):
        kept[k] = orders[k].select(threshold, needed)
        if k:
            needed = np.zeros(len(orders[k - 1].p), bool)
            places = needs[k - 1][kept[k]].ravel()
            needed[places[places >= 0]] = True
    return kept


def _restrict(model: BackoffModel, kept: list[np.ndarray]) -> BackoffModel:
    """Return the model of the kept n-grams, with their contexts only."""
    size = model.vocabulary_size
    ngrams = [model.ngrams(k, mask) for k, mask in enumerate(kept, start=2)]
    contexts = [ids[:, :-1] for ids in ngrams]
    trie = ContextTrie.from_contexts(size, contexts, model.order - 1)
    keys = [*map(trie.find_keys, ngrams)]
    log_probs = [log_probs[mask] for log_probs, mask in zip(model.log_probs, kept, strict=True)]
    return BackoffModel.normalised(trie, model.unigrams, keys, log_probs, model.boundary)
