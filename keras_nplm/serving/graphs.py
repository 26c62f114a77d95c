"""Networks, mixtures, short-lists and hybrids as TensorFlow graphs."""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import tensorflow as tf

from keras_nplm.data.text_ops import store_array
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.scores import LinearScores, compute_log_prob
from keras_nplm.models.base import NextWordModel, cut_contexts
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.keras_model import KerasModel
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.shortlist import Shortlist
from keras_nplm.serving.graph_model import (
    GraphModel,
    build_graph,
    combine_log_probs,
    rank_words,
    take_logarithm,
)
from keras_nplm.serving.linear_outputs import LinearOutputs
from keras_nplm.serving.ngram_graphs import FrequencyBinsGraph, SortedTable, Table

_LOG_ZERO = float("-inf")


@build_graph.register(ContextNetwork)
class NetworkGraph(GraphModel):
    """The layers of a network as a graph, with the variables that inference reads and no others."""

    def __init__(self, model: ContextNetwork):
        super().__init__(model)
        # as an attribute, `tf.saved_model.save` would store all of its variables
        self._get_network = lambda: model
        self.outputs = self.store_outputs()
        contexts = tf.TensorSpec([None, self.order - 1], tf.int32)
        targets = tf.TensorSpec([None], tf.int32)
        inference = tf.function(self._infer, [contexts, targets], autograph=False)
        self.weights = list(inference.get_concrete_function().graph.variables)

    @property
    def network(self) -> ContextNetwork:
        return self._get_network()

    def store_outputs(self) -> LinearOutputs | None:
        """Return the output layer as one matrix, if it is linear; else the head computes it."""
        scores = self.network.scores(tf.zeros([1, self.order - 1], tf.int32))
        return LinearOutputs(scores) if isinstance(scores, LinearScores) else None

    def _infer(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Compute all that is served, to see which variables are read."""
        return self.next_log_probs(context_ids), self.log_prob(context_ids, target_ids)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        num_outputs = self.network.prob.num_outputs
        log_prob = self.output_log_prob(context_ids, tf.minimum(target_ids, num_outputs - 1))
        if num_outputs == self.vocabulary_size:
            return log_prob
        return tf.where(target_ids < num_outputs, log_prob, _LOG_ZERO)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        num_outputs = self.network.prob.num_outputs
        log_probs = self.next_output_log_probs(context_ids)[:, :num_outputs]
        padding = [[0, 0], [0, self.vocabulary_size - num_outputs]]
        return tf.pad(log_probs, padding, constant_values=_LOG_ZERO)

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(output | context), float [B], for outputs of the head, int32 [B]."""
        scores = self.network.scores(context_ids)
        if self.outputs is not None and isinstance(scores, LinearScores):
            return self.outputs.log_prob(scores.features, output_ids)
        # its `log_prob` needs XLA, which a server may not have
        if isinstance(self.network.prob, EnergyHead):
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        return compute_log_prob(scores, output_ids)

    def next_output_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(output | context), float [B, outputs]."""
        logits = self._compute_logits(context_ids)
        return tf.nn.log_softmax(logits[:, : self.network.prob.num_outputs])

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        network = self.network
        if not network.prob.has_word_rows or network.prob.num_outputs < network.vocabulary_size:
            return super().most_probable(context_ids, first, k, fits)
        logits = self._compute_logits(context_ids)
        top, ids = rank_words(logits, first, k, fits)
        # one pass of vectorised operations; a log-sum-exp takes four
        probabilities = tf.gather(tf.nn.softmax(logits), ids, batch_dims=1)
        probabilities = tf.where(top > _LOG_ZERO, probabilities, 0)  # of a word that fits
        return ids, tf.cast(probabilities, tf.float32)

    def _compute_logits(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return y of the outputs, float [B, outputs], and perhaps columns of probability 0."""
        scores = self.network.scores(context_ids)
        if self.outputs is not None and isinstance(scores, LinearScores):
            return self.outputs.logits(scores.features)
        return scores.logits()


# without the n-gram model that it reads; see `HybridGraph`
build_graph.register(HybridNetwork, build_graph.dispatch(object))


@build_graph.register(KerasModel)
class KerasModelGraph(GraphModel):
    """A plain Keras model as a graph, with the variables that inference reads and no others."""

    def __init__(self, model: KerasModel):
        super().__init__(model)
        self._get_model = lambda: model.model  # see `NetworkGraph`
        contexts = tf.TensorSpec([None, self.order - 1], tf.int32)
        inference = tf.function(self.next_log_probs, [contexts], autograph=False)
        self.weights = list(inference.get_concrete_function().graph.variables)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.math.log(tf.cast(self._get_model()(context_ids, training=False), tf.float32))


@build_graph.register(Uniform)
class UniformGraph(GraphModel):
    """The uniform distribution as a graph; see `Uniform`."""

    def __init__(self, model: Uniform):
        super().__init__(model)
        any_context = np.zeros((1, 1), np.int32)
        self.distribution = store_array(model.next_log_probs(any_context)[0].astype(np.float32))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


@build_graph.register(Mixture)
class MixtureGraph(GraphModel):
    """A convex combination of language models as a graph; see `Mixture`.

    The arguments are those of graphs for servers: the graphs of the parts, the tables of n-grams,
    and the dtype of sums.
    """

    def __init__(
        self,
        model: Mixture,
        build: Callable[[NextWordModel], GraphModel] = build_graph,
        table: Table = SortedTable,
        dtype: str = "float64",
    ):
        super().__init__(model)
        self.models = [build(part) for part in model.models]
        log_weights = take_logarithm(model.weights, dtype)
        self.bins = FrequencyBinsGraph(model.bins, table) if model.bins else None
        self.log_weights = store_array(log_weights) if model.bins else log_weights[0]

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.log_prob(cut_contexts(model, context_ids), target_ids))
        return combine_log_probs(log_probs, self._find_weights(context_ids))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_probs = []
        for model in self.models:
            log_probs.append(model.next_log_probs(cut_contexts(model, context_ids)))
        log_weights = self._find_weights(context_ids)
        if self.bins is not None:
            log_weights = [log_weight[:, None] for log_weight in log_weights]
        return combine_log_probs(log_probs, log_weights)

    def _find_weights(self, context_ids: tf.Tensor) -> Sequence[tf.Tensor] | np.ndarray:
        """Return ln of the weight of each model: numbers, or [B] each with bins."""
        if self.bins is None:
            return self.log_weights
        bins = self.bins.find_bins(context_ids)
        return tf.unstack(tf.gather(self.log_weights, bins), axis=1)


@build_graph.register(Shortlist)
class ShortlistGraph(GraphModel):
    """A short-list network and its background model as a graph; see `Shortlist` for the
    formulas.
    """

    def __init__(self, model: Shortlist):
        super().__init__(model)
        self.network = cast(NetworkGraph, build_graph(model.network))
        self.background = build_graph(model.background)
        self.num_listed = model.listed

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        outputs = self.network.next_output_log_probs(cut_contexts(self.network, context_ids))
        inside = tf.cast(outputs, tf.float64)
        background = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        outside = tf.cast(background[:, self.num_listed :], tf.float64)
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        inside += tf.math.log1p(-mass)
        return tf.concat([inside, outside], axis=1)


@build_graph.register(Hybrid)
class HybridGraph(GraphModel):
    """A network and the n-gram model inside it as a graph; see `Hybrid`."""

    def __init__(self, model: Hybrid):
        super().__init__(model)
        network = model.network
        self._get_network = lambda: network  # see `NetworkGraph`
        self.background = build_graph(model.background)
        contexts = tf.TensorSpec([None, network.order - 1], tf.int32)
        log_q = tf.TensorSpec([None, self.vocabulary_size], tf.float32)
        inference = tf.function(self._guide, [contexts, log_q], autograph=False)
        self.weights = list(inference.get_concrete_function().graph.variables)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_q = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        contexts = cut_contexts(self._get_network(), context_ids)
        return self._guide(contexts, tf.cast(log_q, tf.float32))

    def _guide(self, context_ids: tf.Tensor, log_q: tf.Tensor) -> tf.Tensor:
        """Return ln P of all words from the contexts and ln Q, float32 [B, |V|]."""
        scores = self._get_network().scores({"contexts": context_ids, "log_q": log_q})
        return tf.nn.log_softmax(scores.logits())
