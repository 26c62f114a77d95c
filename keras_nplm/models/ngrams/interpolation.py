"""Weights of a convex combination of distributions, fitted by expectation-maximisation on held-out text."""

import dataclasses
import os

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_arrays
from keras_nplm.models.ngrams.counts import (
    ContextFrequencies,
    ContextTrie,
    are_counts,
    check_contexts,
    refuse_unless,
)

_MOST_ITERATIONS = 500
_TOLERANCE = 1e-6  # of the largest change of a weight


def combine(log_probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """ln sum_k weight_k P_k, summed stably: float64 [T].

    Args:
        log_probs: ln P_k of each event, float [T, K], in nats; -inf is allowed.
        weights: float [K], or one row an event, [T, K].

    Example:

    >>> combine(np.log([[0.5, 0.1]]), np.array([0.25, 0.75])).round(4)
    array([-1.6094])
    """
    log_probs = np.asarray(log_probs, np.float64)
    highest = np.max(log_probs, axis=-1, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(weights * np.exp(log_probs - highest), axis=-1)) + highest[..., 0]


def is_distribution(shares: np.ndarray) -> bool:
    """Whether each row, float [..., K], has shares that are not negative and sum to 1."""
    return bool((shares >= 0).all() and np.allclose(shares.sum(axis=-1), 1, atol=1e-6))


def fit_weights(log_probs: np.ndarray, bins: np.ndarray | None = None, num_bins: int = 1) -> np.ndarray:
    """The weights that make held-out events likely, by expectation-maximisation from equal ones.

        r_tk = w_k P_k(t) / sum_j w_j P_j(t),    w_k <- (1/K + sum_t r_tk) / (1 + T), over the T events of the bin

    One event shared by all K keeps every weight above 0: what few held-out events never needed, other text may.

    Args:
        log_probs: ln P_k of each event, float [T, K], in nats.
        bins: which of `num_bins` sets of weights an event has, int [T]. Default: all have the same.
        num_bins: how many sets there are. One without events keeps equal weights.

    Returns:
        float64 [num_bins, K], rows summing to 1.

    Raises:
        InputError: no event, or one that every P_k gives probability 0.

    Example:

    >>> fit_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(3)
    array([[0.636, 0.364]])

    Reference: Jelinek & Mercer (1980), Interpolated estimation of Markov source parameters from sparse data.
    """
    events, components = log_probs.shape
    bins = np.zeros(events, np.int64) if bins is None else bins
    if not events:
        raise InputError("There is no text to fit weights on: give the validation split some.")
    weights = np.full((num_bins, components), 1 / components)
    sizes = np.bincount(bins, minlength=num_bins)[:, None]
    for _ in range(_MOST_ITERATIONS):
        total = combine(log_probs, weights[bins])
        if not np.isfinite(total).all():
            raise InputError(
                f"Event {int(np.argmin(np.isfinite(total)))} of the text to fit weights on has probability 0 in every "
                "model: add one that gives every word some, as --uniform does."
            )
        responsibility = np.exp(np.log(weights)[bins] + log_probs - total[:, None])
        sums = np.stack([np.bincount(bins, r, minlength=num_bins) for r in responsibility.T], axis=1)
        before, weights = weights, (sums + 1 / components) / (sizes + 1)
        if np.abs(weights - before).max() < _TOLERANCE:
            break
    return weights


@dataclasses.dataclass(frozen=True)
class FrequencyBins:
    """Which set of weights a context has, by how often it was seen in training.

        l(x) = ceil(-ln((1 + x) / T)),    x the frequency of the context, T the tokens of the training text

    The paper takes x of the last k words alone (`back_off=False`), which puts all contexts never seen into one bin.
    With back-off those are told apart by the frequency of their last k-1 words, and so on.

    Args:
        frequencies: of contexts of 1 to k words.
        back_off: whether shorter contexts count where the longer one was never seen.

    Example:

    >>> trie, counts = ContextTrie(6, [np.array([5 * 6 + 4])]), [np.array([0, 0, 0, 0, 200, 600]), np.array([5])]
    >>> FrequencyBins(ContextFrequencies(trie, counts)).of(np.array([[4, 5], [4, 4], [5, 2]]))
    array([ 5, 10, 15])

    Reference: Bengio et al. (2003), section 4.1.
    """

    frequencies: ContextFrequencies
    back_off: bool = True

    @property
    def number(self) -> int:
        """How many bins there are."""
        return self.bins_a_length * (len(self.frequencies.counts) if self.back_off else 1)

    @property
    def bins_a_length(self) -> int:
        """How many bins the contexts of one length have."""
        return int(np.ceil(np.log(self.frequencies.tokens))) + 1

    def of(self, context_ids: np.ndarray) -> np.ndarray:
        """The bin of each context, int64 [B], from 0."""
        frequencies = self.frequencies.look_up(context_ids)[:, ::-1]  # [B, k], the longest context first
        length = np.zeros(len(frequencies), np.int64)
        if self.back_off:
            seen = frequencies > 0
            length = np.where(seen.any(axis=1), seen.argmax(axis=1), frequencies.shape[1] - 1)
        frequency = np.take_along_axis(frequencies, length[:, None], axis=1)[:, 0]
        level = np.ceil(-np.log((1 + frequency) / self.frequencies.tokens))
        return np.maximum(level, 0).astype(np.int64) + length * self.bins_a_length

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        """What `load` needs of the file that a model is saved in."""
        contexts, counts = self.frequencies.contexts, self.frequencies.counts
        return {"contexts": contexts.keys, "context_counts": counts, "back_off": np.array(self.back_off)}

    @classmethod
    def load(cls, path: str | os.PathLike) -> "FrequencyBins":
        """Read the bins from a file that holds `arrays()` among others.

        Raises:
            InputError: the file is absent, damaged, or lacks them.
        """
        stored = read_arrays(path, ["back_off", "context_counts.0"], ["contexts", "context_counts"])
        counts = stored["context_counts"]
        trie = ContextTrie(counts[0].size, stored["contexts"])
        check_contexts(path, trie.vocabulary_size, trie.keys)
        shapes = [(trie.vocabulary_size,), *(keys.shape for keys in trie.keys)]
        refuse_unless(path, [count.shape for count in counts] == shapes and stored["back_off"].shape == ())
        refuse_unless(path, all(map(are_counts, counts)))
        return cls(ContextFrequencies(trie, counts), bool(stored["back_off"]))
