"""Probabilities of a network, exactly normalised, from arrays to arrays by compiled graphs."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.ids import check_contexts, check_ngrams, find_distinct_rows
from keras_nplm.data.segments import join_contexts
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.scores import Scores, compute_log_prob
from keras_nplm.layers.segments import Context
from keras_nplm.models.base import Network, row_blocks

_CONTEXTS = 512  # contexts that the compiled network receives at a time
SEGMENT = 64  # of them in a segment
_IDS = tf.TensorSpec([None], tf.int32)
LONG_ORDER = 16  # of contexts that are joined to segments


class graph_property(functools.cached_property):
    """A cached property that is computed once, also if several threads read it first at the same
    time.

    From Python 3.12 on `functools.cached_property` has no lock.
    """

    _lock = threading.RLock()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        with self._lock:  # only until the value is cached
            if instance is not None and self.attrname in vars(instance):
                return vars(instance)[self.attrname]
            return super().__get__(instance, owner)


class NetworkProbabilities(Network):
    """Mixin of a network with `read`, `features`, `scores` and `prob`."""

    boundary: str
    embed: ContextEmbedding
    prob: Head
    read: Callable[..., Context]
    features: Callable[..., Tensor]
    scores: Callable[..., Scores]

    def __dir__(self) -> list[str]:
        """Return the names of attributes without the compiled graphs.

        Keras reads each name of `dir` when it saves or loads a network, which would trace every
        graph.
        """
        return [
            name
            for name in super().__dir__()
            if not isinstance(getattr(type(self), name, None), graph_property)
        ]

    def compute_features(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the features of contexts [B, n-1] as an array, float [B, w], without copies;
        evaluated in blocks.
        """
        return self._in_blocks(self._graph_features, context_ids)

    def output_log_prob(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """Return ln P(word | context), float [B], in nats, of words that the head scores."""
        outputs = self.prob.num_outputs
        size = self.vocabulary_size
        context_ids, output_ids = check_ngrams(context_ids, output_ids, self.order, size, outputs)
        result = np.zeros(len(output_ids), self.prob.accumulator_dtype)
        rest = np.arange(len(output_ids))
        # contexts that follow each other, as in a text, share the look-up of their words
        if self.order > LONG_ORDER and self.embed.reads_segments:
            whole = rest[: len(rest) // SEGMENT * SEGMENT].reshape(-1, SEGMENT)
            segments, follows = join_contexts(context_ids[whole], SEGMENT, self.boundary)
            rest = np.concatenate([whole[~follows].ravel(), rest[whole.size :]])
            segments = segments[follows]
            joined = whole[follows]
            for block in row_blocks(len(joined), _CONTEXTS // SEGMENT):
                rows = joined[block].ravel()
                result[rows] = self._graph_segment_log_prob(segments[block], output_ids[rows])
        contexts, which = find_distinct_rows(context_ids[rest])
        by_context = np.argsort(which, kind="stable")
        for first in range(0, len(contexts), _CONTEXTS):
            begin, end = np.searchsorted(which, [first, first + _CONTEXTS], sorter=by_context)
            some = by_context[begin:end]
            block_contexts = contexts[first : first + _CONTEXTS]
            places = which[some] - first
            result[rest[some]] = self._graph_log_prob(
                block_contexts, output_ids[rest[some]], places
            )
        return result

    def output_logits(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """Return the logit y of a scored word in each context, float [B]."""
        rows = range(0, max(1, len(output_ids)), _CONTEXTS)
        blocks = [slice(first, first + _CONTEXTS) for first in rows]
        logits = [self._graph_logit(context_ids[block], output_ids[block]) for block in blocks]
        return np.concatenate(logits)

    def next_output_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(word | context) of the words that the head scores, float [B, outputs]."""
        return self._in_blocks(self._graph_log_probs, context_ids)

    def _in_blocks(self, function: Callable, context_ids: np.ndarray) -> np.ndarray:
        """Return the rows of a compiled function of contexts, computed `_CONTEXTS` contexts at a
        time.
        """
        context_ids = check_contexts(context_ids, self.order, self.vocabulary_size)
        blocks = [
            context_ids[i : i + _CONTEXTS] for i in range(0, max(1, len(context_ids)), _CONTEXTS)
        ]
        return np.concatenate([function(block) for block in blocks])

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        inside = target_ids < self.prob.num_outputs
        # ln P of words outside a short-list
        result = np.full(len(target_ids), -np.inf, self.prob.accumulator_dtype)
        result[inside] = self.output_log_prob(context_ids[inside], target_ids[inside])
        return result

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        log_probs = self._graph_log_probs(context_ids)
        listed = self.prob.num_outputs
        outside = np.full((len(log_probs), self.vocabulary_size - listed), -np.inf, log_probs.dtype)
        return (
            np.concatenate([log_probs[:, :listed], outside], axis=1)
            if outside.shape[1]
            else log_probs
        )

    @graph_property
    def _graph_features(self) -> Callable:
        def compute_features(context_ids: Tensor) -> Tensor:
            return ops.cast(self.features(self.read(context_ids)), self.prob.accumulator_dtype)

        return self._compile(compute_features, [self._context_spec()])

    @graph_property
    def _graph_log_probs(self) -> Callable:
        def compute_log_probs(context_ids: Tensor) -> Tensor:
            return ops.log_softmax(self.scores(context_ids).logits())

        return self._compile(compute_log_probs, [self._context_spec()])

    @graph_property
    def _graph_log_prob(self) -> Callable:
        def compute(context_ids: Tensor, word_ids: Tensor, places: Tensor) -> Tensor:
            return compute_log_prob(self.scores(context_ids), word_ids, places)

        return self._compile(compute, [self._context_spec(), _IDS, _IDS])

    @graph_property
    def _graph_logit(self) -> Callable:
        def compute(context_ids: Tensor, word_ids: Tensor) -> Tensor:
            return self.scores(context_ids).logit(word_ids)

        return self._compile(compute, [self._context_spec(), _IDS])

    @graph_property
    def _graph_segment_log_prob(self) -> Callable:
        def compute(segments: Tensor, word_ids: Tensor) -> Tensor:
            return compute_log_prob(self.scores({"segments": segments}), word_ids)

        width = self.order - 2 + SEGMENT
        return self._compile(compute, [tf.TensorSpec([None, width], tf.int32), _IDS])

    def _context_spec(self) -> tf.TensorSpec:
        return tf.TensorSpec([None, self.order - 1], tf.int32)

    def _compile(self, function: Callable, signature: list[tf.TensorSpec]) -> Callable:
        """Return `function` of tensors as a graph from arrays to an array."""
        # the one graph of all shapes: calls of the `tf.function` would compare types, and count a
        # trace per network; AutoGraph would rewrite the source of each layer first
        traced = tf.function(function, input_signature=signature, autograph=False)
        graph = traced.get_concrete_function()

        def compute(*arrays: np.ndarray) -> np.ndarray:
            tensors = [
                tf.convert_to_tensor(array, spec.dtype)
                for array, spec in zip(arrays, signature, strict=True)
            ]
            return graph(*tensors).numpy()

        return compute
