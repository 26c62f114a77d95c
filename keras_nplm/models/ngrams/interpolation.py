"""Linear interpolation: weights fitted on held-out text by expectation-maximisation (EM), and
frequency bins.
"""

import dataclasses
import os
from collections.abc import Sequence

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.io.files import read_arrays
from keras_nplm.models.base import row_blocks
from keras_nplm.models.ngrams.counts import NgramCounts
from keras_nplm.models.ngrams.tables import ContextTrie

_MAX_ITERATIONS = 500
_TOLERANCE = 1e-6  # of the largest change of a weight
_PRIOR = 1.0  # events of each bin that its components share equally
_BLOCK_EVENTS = 1 << 16  # held-out events whose responsibilities are computed together


def combine(log_probs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ln sum_k weight_k P_k, the log-probability of an interpolation, computed stably:
    float64 [T].
    """
    log_probs = np.asarray(log_probs, np.float64)
    if not np.all(weights):  # a part without weight, which may be far more probable, is no part
        log_probs = np.where(weights, log_probs, -np.inf)
    highest = np.max(log_probs, axis=-1, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0)
    scaled = np.sum(weights * np.exp(log_probs - highest), axis=-1)
    with np.errstate(divide="ignore"):
        return np.log(scaled) + highest[..., 0]


def fit_weights(
    columns: Sequence[np.ndarray] | np.ndarray, bins: np.ndarray | None = None, num_bins: int = 1
) -> np.ndarray:
    """Fit interpolation weights to ln P_k of held-out events, K columns [T], by
    expectation-maximisation (EM): float64 [bins, K].

        r_tk = w_k P_k(t) / sum_j w_j P_j(t),
        w_k <- (1/K + sum_t r_tk) / (1 + T), over the T events of the bin

    It reads the columns in blocks: its own memory does not grow with T.

    Reference: Jelinek & Mercer (1980), Interpolated estimation of Markov source parameters from
    sparse data.
    """
    components = len(columns)
    events = len(columns[0])
    weights = np.full((num_bins, components), 1 / components)
    sizes = events if bins is None else np.bincount(bins, minlength=num_bins)[:, None]
    for _ in range(_MAX_ITERATIONS):
        sums = np.zeros_like(weights)
        for block in row_blocks(events, _BLOCK_EVENTS):
            log_probs = np.array([column[block] for column in columns], np.float64)
            sums += _sum_responsibilities(
                log_probs, weights, None if bins is None else bins[block], block.start
            )
        previous = weights
        weights = (sums + _PRIOR / components) / (sizes + _PRIOR)
        if np.abs(weights - previous).max() < _TOLERANCE:
            break
    return weights


def _sum_responsibilities(
    log_probs: np.ndarray, weights: np.ndarray, bins: np.ndarray | None, start: int
) -> np.ndarray:
    """Return sum_t r_tk in each bin, float64 [bins, K], of a block of ln P_k, float64 [K, B], whose
    first event is number `start`.
    """
    highest = log_probs.max(axis=0)
    is_possible = np.isfinite(highest)
    if not is_possible.all():
        raise InputError(
            "`held_out_ids` must be words with a probability above 0. Received: token "
            f"{start + int(np.argmin(is_possible))} has probability 0 in every model. "
            "Fix: add the uniform distribution (--uniform)."
        )
    joint = np.exp(log_probs - highest)  # at least one is 1, and no weight is 0
    joint *= weights.T if bins is None else weights.T[:, bins]
    joint /= joint.sum(axis=0)
    if bins is None:
        return joint.sum(axis=1)[None]
    of_bins = [np.bincount(bins, column, minlength=len(weights)) for column in joint]
    return np.stack(of_bins, axis=1)


def sum_log_probs(columns: Sequence[np.ndarray], weights: np.ndarray) -> float:
    """Return the log-likelihood of an interpolation, of K columns ln P_k [T] and weights [K], in
    blocks.
    """
    blocks = row_blocks(len(columns[0]), _BLOCK_EVENTS)
    parts = (np.stack([column[block] for column in columns], axis=1) for block in blocks)
    return float(sum(combine(part, weights).sum() for part in parts))


@dataclasses.dataclass(frozen=True)
class FrequencyBins:
    """Bins of contexts by training frequency, each with its own interpolation weights.

        l(x) = ceil(-ln((1 + x) / T)),
        x the frequency of the context, T the tokens of the training text

    In the paper (`back_off=False`) x is the frequency of the last k words, so that all unseen
    contexts are in one bin. With `back_off`, the bin of an unseen context depends on the frequency
    of its last k-1 words, and so on. `fit_mixture` takes them as `bins`.

    `counts` are int64, for contexts of 1, 2, … n-1 words by their number.

    >>> from keras_nplm import count_ngrams
    >>> counts = count_ngrams(np.array([4, 5, 4, 5, 6, 3]), vocabulary_size=7, order=2)
    >>> bins = FrequencyBins.from_counts(counts, back_off=False)
    >>> bins.find_bins(np.array([[4], [6], [2]])).tolist()  # seen twice, once, never
    [1, 2, 2]

    Reference: Bengio et al. (2003), section 4.1.
    """

    contexts: ContextTrie
    counts: list[np.ndarray]
    back_off: bool = True

    @classmethod
    def from_counts(cls, counts: NgramCounts, back_off: bool = True) -> "FrequencyBins":
        """Count the contexts of 1 to n-1 words of a text, from its n-grams of order 2 or more."""
        frequencies = []
        for length, size in enumerate(counts.contexts.sizes, start=1):
            nodes = counts.nodes(length + 1)
            sums = np.bincount(nodes, counts.counts[length], minlength=size)
            frequencies.append(sums.astype(np.int64))
        return cls(counts.contexts, frequencies, back_off)

    @property
    def tokens(self) -> int:
        """T, the number of training tokens with a context; 1 if there were 0."""
        return max(1, int(self.counts[0].sum()))

    @property
    def bins_per_length(self) -> int:
        """The number of bins for contexts of one length."""
        return int(np.ceil(np.log(self.tokens))) + 1

    @property
    def number(self) -> int:
        return self.bins_per_length * (len(self.counts) if self.back_off else 1)

    def find_bins(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the bin of each context, int64 [B], 0 to `number` - 1."""
        # [B, k], the longest context first
        frequencies = self.look_up(context_ids)[:, ::-1]
        length = np.zeros(len(frequencies), np.int64)
        if self.back_off:
            seen = frequencies > 0
            length = np.where(seen.any(axis=1), seen.argmax(axis=1), frequencies.shape[1] - 1)
        frequency = np.take_along_axis(frequencies, length[:, None], axis=1)[:, 0]
        return self.find_levels(frequency) + length * self.bins_per_length

    def find_levels(self, frequencies: np.ndarray) -> np.ndarray:
        """Return l of frequencies, int64."""
        levels = np.ceil(-np.log((1 + frequencies) / self.tokens))
        return np.maximum(levels, 0).astype(np.int64)

    def look_up(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the frequency of the last 1, 2, … n-1 words of each context, int64 [B, n-1]."""
        frequencies = np.zeros((len(context_ids), len(self.counts)), np.int64)
        for k, (rows, nodes) in enumerate(self.contexts.walk(context_ids)):
            frequencies[rows, k] = self.counts[k][nodes]
        return frequencies

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the length of the longest seen ending of each context, int64 [B]: the bin depends
        on no other word.
        """
        # an ending of a seen context is seen
        return np.count_nonzero(self.look_up(context_ids), axis=1)

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Return the arrays that `load` reads, by name: for the file of a model."""
        return {
            "contexts": self.contexts.keys,
            "context_counts": self.counts,
            "back_off": np.array(self.back_off),
        }

    @classmethod
    def load(cls, path: str | os.PathLike) -> "FrequencyBins":
        """Read the bins from a file that holds the arrays of `arrays()`."""
        stored = read_arrays(path, ["back_off", "context_counts.0"], ["contexts", "context_counts"])
        counts = stored["context_counts"]
        trie = ContextTrie(counts[0].size, stored["contexts"])
        return cls(trie, counts, bool(stored["back_off"]))
