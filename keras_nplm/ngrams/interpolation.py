"""Weights of a convex combination of distributions, fitted by expectation-maximisation on held-out text."""

import dataclasses
import os

import numpy as np

from keras_nplm.errors import InputError
from keras_nplm.files import read_arrays
from keras_nplm.ngrams.counts import ContextFrequencies, ContextTrie

_MOST_ITERATIONS = 500
_TOLERANCE = 1e-9  # of the mean log-likelihood, in nats


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


def fit_weights(
    log_probs: np.ndarray, bins: np.ndarray | None = None, num_bins: int = 1, iterations: int = _MOST_ITERATIONS
) -> np.ndarray:
    """The weights that maximise the likelihood of held-out events, by expectation-maximisation from equal ones.

        r_tk = w_k P_k(t) / sum_j w_j P_j(t),    w_k <- mean of r_tk over the events of the bin

    Args:
        log_probs: ln P_k of each event, float [T, K], in nats.
        bins: which of `num_bins` sets of weights an event has, int [T]. Default: all have the same.
        num_bins: how many sets there are. One without events keeps equal weights.
        iterations: at most so many; it ends sooner where the likelihood no longer changes.

    Returns:
        float64 [num_bins, K], rows summing to 1.

    Raises:
        InputError: no event, or one that every P_k gives probability 0.

    Example:

    >>> fit_weights(np.log([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])).round(3)
    array([[0.708, 0.292]])

    Reference: Jelinek & Mercer (1980), Interpolated estimation of Markov source parameters from sparse data.
    """
    events, components = log_probs.shape
    bins = np.zeros(events, np.int64) if bins is None else bins
    if not events:
        raise InputError("There is no text to fit weights on: give the validation split some.")
    weights = np.full((num_bins, components), 1 / components)
    sizes = np.bincount(bins, minlength=num_bins)[:, None]
    best = -np.inf
    for _ in range(iterations):
        total = combine(log_probs, weights[bins])
        likelihood = total.mean()
        if not np.isfinite(likelihood):
            raise InputError(
                f"Event {int(np.argmin(np.isfinite(total)))} of the text to fit weights on has probability 0 in every "
                "model: add one that gives every word some, as --uniform does."
            )
        if likelihood - best < _TOLERANCE:
            break
        best = likelihood
        with np.errstate(divide="ignore"):
            responsibility = np.exp(np.log(weights)[bins] + log_probs - total[:, None])
        sums = np.stack([np.bincount(bins, r, minlength=num_bins) for r in responsibility.T], axis=1)
        weights = np.where(sizes > 0, sums / np.maximum(sizes, 1), weights)
    return weights / weights.sum(axis=1, keepdims=True)


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
        return self._bins_a_length * (len(self.frequencies.counts) if self.back_off else 1)

    @property
    def _bins_a_length(self) -> int:
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
        return np.maximum(level, 0).astype(np.int64) + length * self._bins_a_length

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
        trie = ContextTrie(len(stored["context_counts.0"]), stored["contexts"])
        return cls(ContextFrequencies(trie, stored["context_counts"]), bool(stored["back_off"]))
