"""Adaptive head: frequent words at the root, rare words in clusters of less capacity."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.shapes import choose_cutoffs, cluster_width
from keras_nplm.layers.heads.base import Head, safe_log
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import LinearScores, Scores, compute_log_prob


@keras.saving.register_keras_serializable("keras_nplm")
class AdaptiveHead(Head):
    """Adaptive softmax: an exact factoring of P(w | context) by word frequency.

        y_w = ln P(w | context)
        P(w | context) = softmax(b_0 + U_0 f)_w                       for frequent words
        P(w | context) = softmax(b_0 + U_0 f)_{cluster i} softmax(b_i + U_i P_i f)_w    in cluster i

    Frequent words are the ids below the first cut-off, since a vocabulary is sorted by frequency.
    Cluster i holds the ids between cut-offs i and i+1. The last cluster ends at |V|. P_i projects
    the w features to w / 4^i numbers, 4 at least. Training by likelihood computes a cluster only
    for the n-grams whose target lies in it. The logits are normalised: log Z is 0.

    Args:
        vocabulary_size: int, |V|.
        cutoffs: ascending ids, the first of each cluster. Default: a ninth and two fifths of |V|.
        weight_decay: float, the paper's weight decay on all U_i and P_i. The biases b_i have none.

    Reference: Grave, Joulin, Cissé, Grangier & Jégou (2017), Efficient softmax approximation for
    GPUs.
    """

    options = ("cutoffs",)
    is_normalised = True

    def __init__(
        self,
        vocabulary_size: int,
        cutoffs: tuple[int, ...] | None = None,
        weight_decay: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(vocabulary_size, weight_decay, **kwargs)
        self.cutoffs = choose_cutoffs(vocabulary_size, cutoffs)

    def build(self, input_shape: tuple) -> None:
        width = input_shape[-1]
        self.root = self._add_softmax("root", self.cutoffs[0] + len(self.cutoffs), width)
        self.projections = []
        self.clusters = []
        for i, (first, last) in enumerate(self.iterate_clusters(), start=1):
            narrow = cluster_width(width, i)
            self.projections.append(self.add_matrix(f"P{i}", (width, narrow)))
            self.clusters.append(self._add_softmax(f"cluster{i}", last - first, narrow))

    def _add_softmax(self, name: str, size: int, width: int) -> tuple:
        bias = self.add_weight(name=f"{name}_b", shape=(size,), initializer="zeros")
        return self.add_matrix(f"{name}_U", (size, width)), bias

    def iterate_clusters(self) -> Iterator[tuple[int, int]]:
        """Yield the first id of each cluster and the id after its last one."""
        return itertools.pairwise((*self.cutoffs, self.vocabulary_size))

    def scores(self, features: Tensor, training: bool = False) -> "AdaptiveScores":
        dtype = self.product_dtype if training else self.accumulator_dtype
        return AdaptiveScores(self, ops.cast(features, self.accumulator_dtype), dtype)

    def set_unigram(self, unigram: np.ndarray) -> None:
        parts = np.split(unigram, self.cutoffs)
        masses = [part.sum() for part in parts[1:]]
        _, root_bias = self.root
        root_bias.assign(safe_log(np.concatenate([parts[0], masses])))
        for (_, bias), part, mass in zip(self.clusters, parts[1:], masses, strict=True):
            # a cluster without mass has no word that is ever predicted
            bias.assign(safe_log(part / mass) if mass > 0 else np.zeros(len(part)))


@dataclasses.dataclass(frozen=True)
class AdaptiveScores(Scores):
    """The scores of an `AdaptiveHead`, which are log-probabilities."""

    head: AdaptiveHead
    features: Tensor
    training_dtype: str

    def logits(self) -> Tensor:
        root = ops.log_softmax(self._softmax(self.features, self.head.root).logits())
        first = self.head.cutoffs[0]
        parts = [root[:, :first]]
        for i, (projection, cluster) in enumerate(self._clusters()):
            projected = ops.matmul(self.features, projection)
            within = ops.log_softmax(self._softmax(projected, cluster).logits())
            parts.append(within + root[:, first + i, None])
        return ops.concatenate(parts, axis=-1)

    def logit(self, word_ids: Tensor) -> Tensor:
        return self._sum_over_path(word_ids, compute_log_prob)

    def log_z(self) -> Tensor:
        return ops.zeros_like(self.features[:, 0])

    def for_training(self, word_ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_z(), self._sum_over_path(word_ids, _train_log_prob)

    def take(self, places: Tensor) -> "AdaptiveScores":
        return dataclasses.replace(self, features=ops.take(self.features, places, axis=0))

    def _clusters(self) -> Iterator[tuple]:
        return zip(self.head.projections, self.head.clusters, strict=True)

    def _softmax(self, features: Tensor, weights: tuple) -> LinearScores:
        kernel, bias = weights
        return LinearScores(features, (kernel,), bias, self.training_dtype)

    def _sum_over_path(self, word_ids: Tensor, log_prob: Callable) -> Tensor:
        """Return ln P of words: the root's, plus the cluster's for words in a cluster."""
        at_root = word_ids
        members = []
        for i, (first, last) in enumerate(self.head.iterate_clusters()):
            is_member = ops.logical_and(word_ids >= first, word_ids < last)
            at_root = ops.where(is_member, self.head.cutoffs[0] + i, at_root)
            members.append((first, ops.where(is_member)[0]))
        total = log_prob(self._softmax(self.features, self.head.root), at_root)
        for (first, places), (projection, cluster) in zip(members, self._clusters(), strict=True):
            projected = ops.matmul(ops.take(self.features, places, axis=0), projection)
            ids = ops.take(word_ids, places) - first
            within = log_prob(self._softmax(projected, cluster), ids)
            total += ops.scatter(ops.expand_dims(places, -1), within, ops.shape(total))
        return total


def _train_log_prob(scores: LinearScores, word_ids: Tensor) -> Tensor:
    log_z, logit = scores.for_training(word_ids)
    return logit - log_z
