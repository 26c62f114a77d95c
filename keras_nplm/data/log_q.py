"""ln Q of an n-gram model beside the n-grams of a dataset, for a network with the model inside."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
import tensorflow as tf

_ROWS = 2048  # n-grams whose log-probabilities are looked up together, at least a batch


class LogQ(Protocol):
    """A language model, or the models of a jackknife, that gives ln Q."""

    order: int
    vocabulary_size: int

    @property
    def next_log_probs(self) -> Callable[..., np.ndarray]:
        """ln Q of contexts, int [B, n-1]. A jackknife also takes the part of each n-gram, [B]."""


class LogQLookup:
    """Adds ln Q to batches of windows, whose contexts are as wide as network or model needs.

    Attributes:
        order: n of the windows.
    """

    def __init__(self, model: LogQ, network_order: int):
        self._model = model
        self._network_order = network_order
        self.order = max(network_order, model.order)

    def add_to(self, windows: tf.data.Dataset, batch_size: int | None) -> tf.data.Dataset:
        """Return batches of ({"contexts", "log_q"}, target_ids).

        `batch_size` is the size of all batches. None: the sizes differ.
        """
        add = tf.autograph.experimental.do_not_convert(self._add)
        if batch_size is None:
            return windows.map(add).prefetch(2)
        together = windows.batch(max(1, _ROWS // batch_size)).map(add)
        dataset = together.rebatch(batch_size, drop_remainder=True).prefetch(2)
        number = windows.cardinality()
        if number < 0:
            return dataset
        return dataset.apply(tf.data.experimental.assert_cardinality(number))

    def _add(self, inputs: tf.Tensor | tuple, target_ids: tf.Tensor) -> tuple:
        """Add ln Q to one batch, or to several that are stacked, which are joined."""
        context_ids, *folds = inputs if isinstance(inputs, tuple) else (inputs,)
        context_ids = tf.reshape(context_ids, [-1, self.order - 1])
        folds = [tf.reshape(fold, [-1]) for fold in folds]
        log_q = tf.numpy_function(self._look_up, [context_ids, *folds], tf.float32)
        log_q = tf.ensure_shape(log_q, [None, self._model.vocabulary_size])
        contexts = context_ids[:, self.order - self._network_order :]
        return {"contexts": contexts, "log_q": log_q}, tf.reshape(target_ids, [-1])

    def _look_up(self, context_ids: np.ndarray, *folds: np.ndarray) -> np.ndarray:
        contexts = context_ids[:, self.order - self._model.order :]
        return self._model.next_log_probs(contexts, *folds).astype(np.float32)
