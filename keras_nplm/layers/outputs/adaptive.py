"""Adaptive softmax output: frequent words at the root, rare words in clusters of less capacity."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.shapes import choose_cutoffs, cluster_width
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.outputs.base import Output, safe_log
from keras_nplm.layers.softmax import linear_log_prob, linear_softmax


@keras.saving.register_keras_serializable("keras_nplm")
class AdaptiveSoftmax(Output):
    """Adaptive softmax: an exact factoring of P(w | context) by word frequency.

        P(w | context) = softmax(b_0 + U_0 f)_w                                       for frequent words
        P(w | context) = softmax(b_0 + U_0 f)_{cluster i} softmax(b_i + U_i P_i f)_w   for words of cluster i

    Frequent words are the ids below the first cut-off, since a vocabulary is sorted by frequency. Cluster i holds the
    ids between cut-offs i and i+1. The last cluster ends at |V|. P_i projects the w features to w / 4^i numbers, 4 at
    least. Training computes a cluster only for the n-grams whose target lies in it.

    Args:
        vocabulary_size: int, |V|.
        cutoffs: ascending ids, the first of each cluster. Default: a ninth and two fifths of |V|.
        weight_decay: float, the paper's weight decay on all U_i and P_i. The biases b_i have none.

    Reference: Grave, Joulin, Cissé, Grangier & Jégou (2017), Efficient softmax approximation for GPUs.
    """

    options = ("cutoffs", "weight_decay")

    def __init__(
        self, vocabulary_size: int, cutoffs: tuple[int, ...] | None = None, weight_decay: float = 0.0, **kwargs: Any
    ):
        super().__init__(vocabulary_size, **kwargs)
        self.cutoffs = choose_cutoffs(vocabulary_size, cutoffs)
        self.weight_decay = weight_decay

    def build(self, input_shape: tuple) -> None:
        width = input_shape[-1]
        self.root = self._softmax("root", self.cutoffs[0] + len(self.cutoffs), width)
        self.projections, self.clusters = [], []
        for i, (first, last) in enumerate(self._ends(), start=1):
            narrow = cluster_width(width, i)
            self.projections.append(self.add_matrix(f"P{i}", (width, narrow)))
            self.clusters.append(self._softmax(f"cluster{i}", last - first, narrow))

    def log_probs(self, features: Tensor) -> Tensor:
        features = ops.cast(features, self.accumulator_dtype)
        root = ops.log_softmax(_logits(features, *self.root))
        parts = [root[:, : self.cutoffs[0]]]
        for i, (projection, cluster) in enumerate(zip(self.projections, self.clusters, strict=True)):
            within = ops.log_softmax(_logits(ops.matmul(features, projection), *cluster))
            parts.append(within + root[:, self.cutoffs[0] + i, None])
        return ops.concatenate(parts, axis=-1)

    def log_prob(self, features: Tensor, target_ids: Tensor, which: Tensor | None = None) -> Tensor:
        return self._sum_over_path(features, target_ids, linear_log_prob, which)

    def training_loss(self, features: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor | None]:
        def log_softmax(features: Tensor, kernel: Tensor, bias: Tensor, ids: Tensor, which: Tensor | None) -> Tensor:
            log_z, chosen, _ = linear_softmax(features, kernel, bias, ids, self.compute_dtype)
            return chosen - log_z

        negative_log_likelihood = -self._sum_over_path(features, target_ids, log_softmax)
        return negative_log_likelihood, negative_log_likelihood

    def _sum_over_path(
        self, features: Tensor, target_ids: Tensor, log_softmax: Callable, which: Tensor | None = None
    ) -> Tensor:
        """Return ln P of the targets: the root's, plus the cluster's for targets in a cluster."""
        target_ids, known = self.clip_ids(target_ids)
        features = ops.cast(features, self.accumulator_dtype)
        at_root, tails = target_ids, []
        for i, (first, last) in enumerate(self._ends()):
            inside = ops.logical_and(target_ids >= first, target_ids < last)
            at_root = ops.where(inside, self.cutoffs[0] + i, at_root)
            tails.append((first, ops.where(inside)[0]))
        total = log_softmax(features, *self.root, at_root, which)
        for (first, places), projection, cluster in zip(tails, self.projections, self.clusters, strict=True):
            contexts = places if which is None else ops.take(which, places)
            projected = ops.matmul(ops.take(features, contexts, axis=0), projection)
            within = log_softmax(projected, *cluster, ops.take(target_ids, places) - first, None)
            total += ops.scatter(ops.expand_dims(places, -1), within, ops.shape(total))
        return total * known

    def initialise_from_unigram(self, unigram: np.ndarray, held_out: np.ndarray) -> None:
        parts = np.split(unigram, self.cutoffs)
        masses = [part.sum() for part in parts[1:]]
        self.root[1].assign(safe_log(np.concatenate([parts[0], masses])))
        for (_, bias), part, mass in zip(self.clusters, parts[1:], masses, strict=True):
            bias.assign(safe_log(part / mass) if mass > 0 else np.zeros(len(part)))  # no word is ever predicted

    def _ends(self) -> Iterator[tuple[int, int]]:
        return itertools.pairwise((*self.cutoffs, self.vocabulary_size))

    def _softmax(self, name: str, size: int, width: int) -> tuple[keras.Variable, keras.Variable]:
        bias = self.add_weight(name=f"{name}_b", shape=(size,), initializer="zeros")
        return self.add_matrix(f"{name}_U", (size, width)), bias


def _logits(features: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    return ops.matmul(features, ops.transpose(kernel)) + bias
