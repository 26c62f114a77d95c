"""Scores: what a context says of the words, computed as far as a question needs it."""

import abc
import dataclasses

import keras
from keras import ops

from keras_nplm.layers.lookup import rows
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.softmax import linear_softmax, log_normaliser


class Scores(abc.ABC):
    """Unnormalised log-probabilities y of the words in B contexts.

        P(w | context) = exp(y_w) / Z,    Z = sum_i exp(y_i)

    A head makes scores from the features of contexts. An objective asks them for what training
    needs. The scores of a pointer or an n-gram model wrap those of a head. A subclass implements
    `logits` and `take`, and overrides what it can compute without all logits.
    """

    @abc.abstractmethod
    def logits(self) -> Tensor:
        """Return y of all words, float [B, outputs]."""

    @abc.abstractmethod
    def take(self, places: Tensor) -> "Scores":
        """Return the scores of some of the contexts, by place: int [T]."""

    def logit(self, word_ids: Tensor) -> Tensor:
        """Return y of one word per context, float [B], for int [B]."""
        return ops.take_along_axis(self.logits(), word_ids[:, None], axis=1)[:, 0]

    def logits_of(self, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        """Return y of the same k words in all contexts plus `offset` [k]: float [B, k], for int
        [k].
        """
        return ops.take(self.logits(), word_ids, axis=1) + offset

    def log_z(self) -> Tensor:
        """Return ln Z, float [B], for evaluation."""
        return ops.logsumexp(self.logits(), axis=-1)

    def for_training(self, word_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln Z and y of one word per context, float [B] each, with a gradient for
        training.
        """
        return self.log_z(), self.logit(word_ids)

    def expected_logit(self, distribution: Tensor) -> Tensor:
        """Return sum_w q(w) y_w, float [B], for a distribution q over the outputs."""
        y = self.logits()
        return ops.matmul(y, ops.cast(distribution, y.dtype))


def compute_log_prob(scores: Scores, word_ids: Tensor, places: Tensor | None = None) -> Tensor:
    """Return ln P(word | context), float [T], for int [T].

    `places`, int [T], is the context of each word among the B contexts. None: word i is of context
    i.
    """
    log_z = scores.log_z()
    if places is not None:
        scores = scores.take(places)
        log_z = ops.take(log_z, places)
    return scores.logit(word_ids) - log_z


@dataclasses.dataclass(frozen=True)
class LinearScores(Scores):
    """y = b + K f. A few words cost a few rows of K, and log Z never stores [B, outputs].

    K is one weight, or has several as blocks of its columns, [U W], with f = [a; x].
    """

    features: Tensor  # f, float [B, w]
    kernels: tuple[keras.Variable, ...]  # K in blocks of columns, [outputs, w_i] each
    bias: keras.Variable  # b, [outputs]
    training_dtype: str  # of the matrix products of `for_training`

    def plus(self, features: Tensor, kernel: keras.Variable) -> "LinearScores":
        """Return y + K' f', for features f' [B, w'] and a kernel K' [outputs, w']."""
        features = ops.cast(features, self.features.dtype)
        if self.kernels:  # LiteRT joins features of no width to twice the rows
            features = ops.concatenate([self.features, features], axis=-1)
        return dataclasses.replace(self, features=features, kernels=(*self.kernels, kernel))

    def kernel(self) -> Tensor | keras.Variable:
        """Return K, [outputs, w]."""
        if len(self.kernels) == 1:
            return self.kernels[0]
        if not self.kernels:  # biases alone
            return ops.zeros((self.bias.shape[0], 0), self.features.dtype)
        return ops.concatenate([self._cast(kernel) for kernel in self.kernels], axis=1)

    def logits(self) -> Tensor:
        kernel = self._cast(self.kernel())
        return ops.matmul(self.features, ops.transpose(kernel)) + self._cast(self.bias)

    def logit(self, word_ids: Tensor) -> Tensor:
        products = self.features * self._kernel_rows(word_ids)
        return ops.sum(products, axis=-1) + self._cast(rows(self.bias, word_ids))

    def logits_of(self, word_ids: Tensor, offset: Tensor | float = 0.0) -> Tensor:
        kernel = self._kernel_rows(word_ids)
        bias = self._cast(rows(self.bias, word_ids)) + offset
        return ops.matmul(self.features, ops.transpose(kernel)) + bias

    def log_z(self) -> Tensor:
        return log_normaliser(self.features, self.kernel(), self.bias)

    def for_training(self, word_ids: Tensor) -> tuple[Tensor, Tensor]:
        kernels = self.kernels or (self.kernel(),)
        return linear_softmax(self.features, kernels, self.bias, word_ids, self.training_dtype)

    def expected_logit(self, distribution: Tensor) -> Tensor:
        q = self._cast(distribution)
        row = ops.matmul(q, self._cast(self.kernel()))  # [w]
        return ops.matmul(self.features, row) + ops.sum(q * self._cast(self.bias))

    def take(self, places: Tensor) -> "LinearScores":
        return dataclasses.replace(self, features=ops.take(self.features, places, axis=0))

    def _kernel_rows(self, word_ids: Tensor) -> Tensor:
        """Return the rows of K of some words, float [k, w], with sparse gradients."""
        if not self.kernels:  # biases alone
            return ops.zeros((ops.shape(word_ids)[0], 0), self.features.dtype)
        blocks = [self._cast(rows(kernel, word_ids)) for kernel in self.kernels]
        return blocks[0] if len(blocks) == 1 else ops.concatenate(blocks, axis=-1)

    def _cast(self, weight: Tensor | keras.Variable) -> Tensor:
        return ops.cast(weight, self.features.dtype)


@dataclasses.dataclass(frozen=True)
class StoredScores(Scores):
    """Scores whose logits of all words are stored, float [B, outputs]."""

    y: Tensor

    def logits(self) -> Tensor:
        return self.y

    def take(self, places: Tensor) -> "StoredScores":
        return StoredScores(ops.take(self.y, places, axis=0))
