"""Entropy pruning of back-off n-gram models (Stolcke): remove the n-grams that change the
distribution least.
"""

from typing import NamedTuple

import numpy as np

from keras_nplm.data.ids import BOS_ID, EOS_ID, PAD_ID
from keras_nplm.io.errors import check_least
from keras_nplm.models.ngrams.backoff import BackoffModel, backoff_mass, compute_backoff_log_probs


def prune(model: BackoffModel, threshold: float) -> BackoffModel:
    """Prune a back-off n-gram model: remove n-grams whose removal raises perplexity by less than a
    threshold.

    Each n-gram is weighed by Stolcke's formula (see `WeighedNgrams.compute_changes`) as if all
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
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    longer = np.zeros((0, model.order + 1), np.int64)
    for k in range(model.order, 1, -1):
        parts = np.concatenate([longer[:, :-1], longer[:, 1:]])
        is_needed = np.isin(model.keys[k - 2], model.contexts.find_keys(parts))
        is_kept = _select(weigh_ngrams(model, k), threshold, is_needed)
        longer = model.ngrams(k, is_kept)
        kept.insert(0, (longer, model.log_probs[k - 2][is_kept]))
    return BackoffModel.from_ngrams(model.unigrams, kept, boundary=model.boundary)


class WeighedNgrams(NamedTuple):
    """The n-grams h w of one order: the context number of h, P(w|h), P(w|h') and P(h), [N] each."""

    nodes: np.ndarray
    p: np.ndarray
    q: np.ndarray
    history: np.ndarray

    def compute_changes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the relative rise of perplexity without each n-gram, and the unlisted mass of its
        context, [N].

            D = -P(h) {P(w|h) [ln P(w|h') + ln γ'(h) - ln P(w|h)]
                       + [ln γ'(h) - ln γ(h)] sum_u P(u|h)},
            exp(D) - 1

        u are the words not listed after h, and γ' is γ without h w. Reference: Stolcke (1998),
        equations 2 to 5.
        """
        nodes, p, q, history = self
        above = backoff_mass(nodes, p)[nodes]
        below = backoff_mass(nodes, q)[nodes]
        log_gamma = np.log(above / below)
        log_gamma_without = np.log((above + p) / (below + q))
        # a word of probability 0 costs nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            of_word = -p * (np.log(q / p) + log_gamma_without)
            entropy = of_word - above * (log_gamma_without - log_gamma)
        # nor does one after a context of probability 0
        is_possible = (p > 0) & (history > 0)
        return np.expm1(history * np.where(is_possible, entropy, 0.0)), above


def weigh_ngrams(model: BackoffModel, k: int) -> WeighedNgrams:
    """Find P(w|h), P(w|h') and P(h) of the n-grams of an order from 2 on."""
    words = model.contexts.words(k - 1)
    padded = np.pad(words, ((0, 0), (model.order - 1, 0)), constant_values=PAD_ID)
    # <s> is as frequent as </s>
    first = np.where(words[:, 0] == BOS_ID, EOS_ID, words[:, 0])
    history = model.unigrams.astype(np.float64)[first]
    for i in range(1, k - 1):
        history += model.log_prob(padded[:, i : i + model.order - 1], words[:, i])
    nodes = model.keys[k - 2] // model.vocabulary_size
    p = np.exp(model.log_probs[k - 2], dtype=np.float64)
    q = np.exp(compute_backoff_log_probs(model, k))
    return WeighedNgrams(nodes, p, q, np.exp(history)[nodes])


def _select(ngrams: WeighedNgrams, threshold: float, is_needed: np.ndarray) -> np.ndarray:
    """Return which n-grams stay, bool [N]: those that reach the threshold or are needed.

    In each round, a context loses at most as much mass as it did not list, or one n-gram: γ at most
    about doubles.
    """
    is_kept = np.ones(len(is_needed), bool)
    while True:
        places = np.flatnonzero(is_kept)
        left = WeighedNgrams(*(column[places] for column in ngrams))
        change, above = left.compute_changes()
        going = np.flatnonzero((change < threshold) & ~is_needed[places])
        going = going[np.lexsort((left.p[going], change[going], left.nodes[going]))]
        mass = np.cumsum(left.p[going])
        is_first = np.diff(left.nodes[going], prepend=-1) > 0
        run = np.cumsum(is_first) - 1
        # of this n-gram and those before it in the context
        mass -= (mass - left.p[going])[is_first][run]
        going = going[is_first | (mass <= above[going])]
        if not len(going):
            return is_kept
        is_kept[places[going]] = False
