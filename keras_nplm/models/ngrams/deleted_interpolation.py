"""Deleted interpolation: the paper's smoothed trigram, relative frequencies weighted by the
context's frequency.
"""

import dataclasses
import os
from collections.abc import Iterator

import numpy as np

from keras_nplm.data.boundary import predicted_ids
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.io.errors import check_integer
from keras_nplm.io.files import read_arrays
from keras_nplm.models.base import saved_as
from keras_nplm.models.ngrams.base import NgramModel
from keras_nplm.models.ngrams.counts import count_ngrams
from keras_nplm.models.ngrams.interpolation import FrequencyBins, fit_weights
from keras_nplm.models.ngrams.tables import (
    find,
    find_followers,
)


@saved_as("deleted-interpolation")
@dataclasses.dataclass(repr=False, eq=False)
class DeletedInterpolation(NgramModel):
    """Interpolated n-gram language model: relative frequencies of orders 1 to n, and the uniform
    distribution.

        P(w | h) = α_0(l) / |V'| + α_1(l) c(w) / T + α_2(l) c(w_1 w) / c(w_1 •)
                   + α_3(l) c(w_2 w_1 w) / c(w_2 w_1 •)

    An unseen context has the relative frequencies of the next shorter context. l is the bin of the
    context's training frequency (see `FrequencyBins`). `keys` and `counts` are of orders 2 … n;
    `weights` are α, float64 [bins, n + 1].

    Reference: Jelinek & Mercer (1980); Bengio et al. (2003), section 4.1.
    """

    description = "A deleted-interpolation n-gram model"
    uses_whole_contexts = False

    bins: FrequencyBins
    uniform: np.ndarray
    unigrams: np.ndarray
    keys: list[np.ndarray]
    counts: list[np.ndarray]
    weights: np.ndarray
    boundary: str | None = None

    def __post_init__(self) -> None:
        self.order = len(self.keys) + 1
        self.vocabulary_size = len(self.unigrams)

    @property
    def num_ngrams(self) -> list[int]:
        """The number of n-grams of each order in the training text."""
        return [int(np.count_nonzero(self.unigrams)), *map(len, self.keys)]

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        weights = self.weights[self.bins.find_bins(context_ids)]
        components = self.components(context_ids, target_ids)
        with np.errstate(divide="ignore"):
            return np.log(np.sum(weights * components, axis=1))

    def find_used_lengths(self, context_ids: np.ndarray) -> np.ndarray:
        return self.bins.find_used_lengths(context_ids)

    def components(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        """Return 1/|V'| and the relative frequency of each order, which the weights combine:
        float64 [B, n + 1].
        """
        columns = [self.uniform[target_ids], *[self.unigrams[target_ids]] * self.order]
        components = np.stack(columns, axis=1)
        for k, (rows, nodes, counts, keys, totals) in enumerate(self._seen(context_ids), start=2):
            place = find(keys, nodes * self.vocabulary_size + target_ids[rows])
            shares = np.where(place < 0, 0, counts[place]) / totals
            # longer contexts may be unseen
            components[rows, k:] = shares[:, None]
        return components

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        weights = self.weights[self.bins.find_bins(context_ids)]
        # the order of the n-grams of the longest seen context
        longest = np.ones((len(context_ids), 1), np.int64)
        seen = list(self._seen(context_ids))
        for k, (rows, *_) in enumerate(seen, start=2):
            longest[rows] = k
        # it has the weights of all longer contexts, too
        orders = np.arange(weights.shape[1])
        is_longer = orders > longest
        of_longer = np.sum(weights, axis=1, where=is_longer, keepdims=True)
        weights = np.where(is_longer, 0, weights) + (orders == longest) * of_longer
        probability = weights[:, :1] * self.uniform + weights[:, 1:2] * self.unigrams
        for k, (rows, nodes, counts, keys, totals) in enumerate(seen, start=2):
            owner, places = find_followers(keys, nodes, self.vocabulary_size)
            words = keys[places] % self.vocabulary_size
            share = weights[rows, k][owner] * counts[places] / totals[owner]
            probability[rows[owner], words] += share
        with np.errstate(divide="ignore"):
            return np.log(probability)

    def _seen(self, context_ids: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield for contexts of 1, 2, … words: rows with a seen context h, the number of h, the
        counts and keys of the order, and c(h •).
        """
        for k, (rows, nodes) in enumerate(self.bins.contexts.walk(context_ids)):
            totals = self.bins.counts[k][nodes]
            seen = totals > 0
            yield rows[seen], nodes[seen], self.counts[k], self.keys[k], totals[seen]

    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        return {
            "uniform": self.uniform,
            "unigrams": self.unigrams,
            "keys": self.keys,
            "counts": self.counts,
            "weights": self.weights,
            **self.bins.arrays(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike, boundary: str | None = None) -> "DeletedInterpolation":
        """Read the tables that `save` wrote."""
        tables = read_arrays(path, ["uniform", "unigrams", "weights"], ["keys", "counts"])
        return cls(FrequencyBins.load(path), **tables, boundary=boundary)


def deleted_interpolation(
    ids: np.ndarray,
    held_out_ids: np.ndarray,
    vocabulary_size: int,
    order: int = 3,
    boundary: str = "sentence",
    back_off: bool = True,
) -> DeletedInterpolation:
    """Estimate a deleted-interpolation model: count n-grams, then fit the weights on held-out text
    by EM.

    Args:
        ids: the training text, int32 [T], each sentence closed by `</s>`.
        held_out_ids: the validation text.
        vocabulary_size: |V|.
        order: n, 2 or more; 3 in the paper.
        boundary: `"sentence"`, `"text"` or `"stream"`; see `ngram_positions`.
        back_off: whether an unseen context takes its bin from its last words. False is the paper's
            choice, which costs 4% of perplexity on Brown.
    """
    check_integer("order", order, 2)
    counts = count_ngrams(ids, vocabulary_size, order, boundary)
    bins = FrequencyBins.from_counts(counts, back_off)
    predicted = predicted_ids(vocabulary_size, boundary)
    uniform = np.zeros(vocabulary_size)
    unigrams = np.zeros(vocabulary_size)
    uniform[predicted] = 1 / len(predicted)
    unigrams[counts.keys[0]] = counts.counts[0] / counts.counts[0].sum()
    equal = np.full((bins.number, order + 1), 1 / (order + 1))
    model = DeletedInterpolation(
        bins, uniform, unigrams, counts.keys[1:], counts.counts[1:], equal, boundary
    )
    ngrams = extract_ngrams(held_out_ids, order, boundary)
    with np.errstate(divide="ignore"):
        components = np.log(model.components(ngrams[:, :-1], ngrams[:, -1]))
    weights = fit_weights(components.T, bins.find_bins(ngrams[:, :-1]), bins.number)
    return dataclasses.replace(model, weights=weights)
