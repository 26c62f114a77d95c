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


_LOCK = threading.RLock()  # a graph is made once, also if several threads ask for it first


class NetworkProbabilities(Network):
    """Mixin of a network with `read`, `features`, `scores` and `prob`."""

    embed: ContextEmbedding
    prob: Head
    read: Callable[..., Context]
    features: Callable[..., Tensor]
    scores: Callable[..., Scores]

    def compute_features(self, context_ids: np.ndarray) -> np.ndarray:
        """Return the features of contexts [B, n-1] as an array, float [B, w], without copies;
        evaluated in blocks.
        """
        return self._in_blocks(_compute_features, context_ids)

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
            of_segments = [self.spec_ids(segments.shape[1]), _IDS]
            joined = whole[follows]
            for block in row_blocks(len(joined), _CONTEXTS // SEGMENT):
                rows = joined[block].ravel()
                result[rows] = self.run_graph(
                    _compute_segment_log_prob, of_segments, segments[block], output_ids[rows]
                )
        contexts, which = find_distinct_rows(context_ids[rest])
        by_context = np.argsort(which, kind="stable")
        signature = [self.spec_ids(self.order - 1), _IDS, _IDS]
        for first in range(0, len(contexts), _CONTEXTS):
            begin, end = np.searchsorted(which, [first, first + _CONTEXTS], sorter=by_context)
            some = by_context[begin:end]
            block_contexts = contexts[first : first + _CONTEXTS]
            places = which[some] - first
            result[rest[some]] = self.run_graph(
                _compute_log_prob, signature, block_contexts, output_ids[rest[some]], places
            )
        return result

    def output_logits(self, context_ids: np.ndarray, output_ids: np.ndarray) -> np.ndarray:
        """Return the logit y of a scored word in each context, float [B]."""
        signature = [self.spec_ids(self.order - 1), _IDS]
        logits = [
            self.run_graph(_compute_logit, signature, context_ids[block], output_ids[block])
            for block in row_blocks(len(output_ids), _CONTEXTS)
        ]
        return np.concatenate(logits)

    def next_output_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        """Return ln P(word | context) of the words that the head scores, float [B, outputs]."""
        return self._in_blocks(_compute_log_probs, context_ids)

    def _in_blocks(self, function: Callable, context_ids: np.ndarray) -> np.ndarray:
        """Return the rows of a function of contexts, computed `_CONTEXTS` contexts at a time."""
        context_ids = check_contexts(context_ids, self.order, self.vocabulary_size)
        signature = [self.spec_ids(self.order - 1)]
        blocks = row_blocks(max(1, len(context_ids)), _CONTEXTS)
        rows = [self.run_graph(function, signature, context_ids[block]) for block in blocks]
        return np.concatenate(rows)

    def _log_prob(self, context_ids: np.ndarray, target_ids: np.ndarray) -> np.ndarray:
        inside = target_ids < self.prob.num_outputs
        # ln P of words outside a short-list
        result = np.full(len(target_ids), -np.inf, self.prob.accumulator_dtype)
        result[inside] = self.output_log_prob(context_ids[inside], target_ids[inside])
        return result

    def _next_log_probs(self, context_ids: np.ndarray) -> np.ndarray:
        log_probs = self.next_output_log_probs(context_ids)
        outside = self.vocabulary_size - self.prob.num_outputs
        if not outside:
            return log_probs
        return np.pad(log_probs, [(0, 0), (0, outside)], constant_values=-np.inf)

    def run_graph(
        self, function: Callable, signature: list[tf.TensorSpec], *arrays: np.ndarray
    ) -> np.ndarray:
        """Run a function of the network and tensors as a graph, which is made once."""
        with _LOCK:
            # past Keras, which would track it
            graphs = vars(self).setdefault("_graphs", {})
            if function not in graphs:
                # the one graph of all shapes: calls of the `tf.function` would compare types, and
                # count a trace per network; AutoGraph would rewrite the source of each layer first
                traced = tf.function(
                    functools.partial(function, self), input_signature=signature, autograph=False
                )
                graphs[function] = traced.get_concrete_function()
        tensors = [
            tf.convert_to_tensor(array, spec.dtype)
            for array, spec in zip(arrays, signature, strict=True)
        ]
        return graphs[function](*tensors).numpy()

    def spec_ids(self, words: int) -> tf.TensorSpec:
        """Return the form of ids of a number of words in each row."""
        return tf.TensorSpec([None, words], tf.int32)


def _compute_features(network: NetworkProbabilities, context_ids: Tensor) -> Tensor:
    features = network.features(network.read(context_ids))
    return ops.cast(features, network.prob.accumulator_dtype)


def _compute_log_probs(network: NetworkProbabilities, inputs: Any) -> Tensor:
    return ops.log_softmax(network.scores(inputs).logits())


def _compute_log_prob(
    network: NetworkProbabilities, context_ids: Tensor, word_ids: Tensor, places: Tensor
) -> Tensor:
    return compute_log_prob(network.scores(context_ids), word_ids, places)


def _compute_logit(network: NetworkProbabilities, context_ids: Tensor, word_ids: Tensor) -> Tensor:
    return network.scores(context_ids).logit(word_ids)


def _compute_segment_log_prob(
    network: NetworkProbabilities, segments: Tensor, word_ids: Tensor
) -> Tensor:
    return compute_log_prob(network.scores({"segments": segments}), word_ids)
