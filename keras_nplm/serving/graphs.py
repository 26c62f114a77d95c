"""Any language model as a TensorFlow graph: `build_graph`, and the graphs of networks, mixtures and
short-lists.
"""

import numpy as np
import tensorflow as tf

from keras_nplm.data.text_ops import store_array
from keras_nplm.io.errors import InputError
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.scores import compute_log_prob
from keras_nplm.models.base import NextWordModel, cut_contexts
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation
from keras_nplm.models.shortlist import Shortlist
from keras_nplm.serving.graph_model import GraphModel, combine_log_probs, exclude, find_top_k
from keras_nplm.serving.ngram_graphs import (
    BackoffGraph,
    ClassBasedGraph,
    DeletedInterpolationGraph,
    FrequencyBinsGraph,
)

_LOG_ZERO = float("-inf")


def build_graph(model: NextWordModel) -> GraphModel:
    """Return a language model of any kind that a model directory holds as a TensorFlow graph."""
    for kind, graph in _GRAPHS.items():
        if isinstance(model, kind):
            return graph(model)
    wanted = "an NPLM, an n-gram model, a Mixture, a Shortlist or a Hybrid to be served"
    fix = "export one without caches."
    raise InputError(f"`model` must be {wanted}. Received: {type(model).__name__}. Fix: {fix}")


class NetworkGraph(GraphModel):
    """The layers of a network as a graph, with the variables that inference reads and no others."""

    def __init__(self, model: ContextNetwork):
        super().__init__(model)
        # as an attribute, `tf.saved_model.save` would store all of its variables
        self._network = lambda: model
        ids = tf.TensorSpec([None, self.order - 1], tf.int32), tf.TensorSpec([None], tf.int32)
        inference = tf.function(
            lambda context, target: (self.next_log_probs(context), self.log_prob(context, target))
        )
        self.weights = list(inference.get_concrete_function(*ids).graph.variables)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        listed = self._network().prob.num_outputs
        log_prob = self.output_log_prob(context_ids, tf.minimum(target_ids, listed - 1))
        return (
            log_prob
            if listed == self.vocabulary_size
            else tf.where(target_ids < listed, log_prob, _LOG_ZERO)
        )

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        listed = self._network().prob.num_outputs
        log_probs = self.next_output_log_probs(context_ids)[:, :listed]
        return tf.pad(
            log_probs, [[0, 0], [0, self.vocabulary_size - listed]], constant_values=_LOG_ZERO
        )

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        network = self._network()
        # its `log_prob` needs XLA, which a server may not have
        if isinstance(network.prob, EnergyHead):
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        return compute_log_prob(network.scores(context_ids), output_ids)

    def next_output_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        network = self._network()
        return tf.nn.log_softmax(network.scores(context_ids).logits())

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        network = self._network()
        if not network.prob.has_word_rows or network.prob.num_outputs < network.vocabulary_size:
            return super().most_probable(context_ids, first, k, fits)
        logits = network.scores(context_ids).logits()
        logits_of_words = exclude(logits[:, first:], fits)
        # only k log-probabilities are needed, so logits are not normalised
        top, ids = find_top_k(logits_of_words, k)
        top -= tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
        return ids + first, tf.cast(tf.exp(top), tf.float32)


class UniformGraph(GraphModel):
    """The uniform distribution as a graph; see `Uniform`."""

    def __init__(self, model: Uniform):
        super().__init__(model)
        self.distribution = store_array(model.next_log_probs(np.zeros((1, 1), np.int32))[0])

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


class MixtureGraph(GraphModel):
    """A convex combination of language models as a graph; see `Mixture`."""

    def __init__(self, model: Mixture):
        super().__init__(model)
        self.models = [build_graph(component) for component in model.models]
        self.weights = store_array(model.weights)
        self.bins = FrequencyBinsGraph(model.bins) if model.bins else None

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        parts = [
            model.log_prob(cut_contexts(model, context_ids), target_ids) for model in self.models
        ]
        return combine_log_probs(parts, self._find_weights(context_ids))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        parts = [model.next_log_probs(cut_contexts(model, context_ids)) for model in self.models]
        return combine_log_probs(
            parts, [weight[:, None] for weight in self._find_weights(context_ids)]
        )

    def _find_weights(self, context_ids: tf.Tensor) -> list[tf.Tensor]:
        bins = (
            self.bins.find_bins(context_ids)
            if self.bins
            else tf.zeros(tf.shape(context_ids)[:1], tf.int32)
        )
        return tf.unstack(tf.gather(self.weights, bins), axis=1)


class ShortlistGraph(GraphModel):
    """A short-list network and its background model as a graph; see `Shortlist` for the
    formulas.
    """

    def __init__(self, model: Shortlist):
        super().__init__(model)
        self.network, self.background = NetworkGraph(model.network), build_graph(model.background)
        self.listed = model.listed

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        outputs = self.network.next_output_log_probs(cut_contexts(self.network, context_ids))
        inside = tf.cast(outputs, tf.float64)
        background = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        outside = tf.cast(background[:, self.listed :], tf.float64)
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        inside += tf.math.log1p(-mass)
        return tf.concat([inside, outside], axis=1)


class HybridGraph(GraphModel):
    """A network and the n-gram model inside it as a graph; see `Hybrid`."""

    def __init__(self, model: Hybrid):
        super().__init__(model)
        self._network = lambda: model.network  # see `NetworkGraph`
        self.background = build_graph(model.background)
        contexts = tf.TensorSpec([None, model.network.order - 1], tf.int32)
        log_q = tf.TensorSpec([None, self.vocabulary_size], tf.float32)
        inference = tf.function(self._guide)
        self.weights = list(inference.get_concrete_function(contexts, log_q).graph.variables)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        log_q = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        return self._guide(cut_contexts(self._network(), context_ids), tf.cast(log_q, tf.float32))

    def _guide(self, context_ids: tf.Tensor, log_q: tf.Tensor) -> tf.Tensor:
        scores = self._network().scores({"contexts": context_ids, "log_q": log_q})
        return tf.nn.log_softmax(scores.logits())


_GRAPHS = {
    ContextNetwork: NetworkGraph,
    Uniform: UniformGraph,
    BackoffModel: BackoffGraph,
    DeletedInterpolation: DeletedInterpolationGraph,
    ClassBased: ClassBasedGraph,
    Mixture: MixtureGraph,
    Shortlist: ShortlistGraph,
    Hybrid: HybridGraph,
}
