"""Any language model as a TensorFlow graph: `build_graph`, and the graphs of mixtures, short-lists and Uniform."""

import numpy as np
import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.shortlist import Shortlist
from keras_nplm.serving.graph_model import GraphModel, combine_log_probs, store_array, take_last_words
from keras_nplm.serving.network_graph import NetworkGraph
from keras_nplm.serving.ngram_graphs import (
    BackoffGraph,
    ClassBasedGraph,
    DeletedInterpolationGraph,
    FrequencyBinsGraph,
)


def build_graph(model: NextWordModel) -> GraphModel:
    """Return a language model of any kind that a model directory holds as a TensorFlow graph."""
    for kind, graph in _GRAPHS.items():
        if isinstance(model, kind):
            return graph(model)
    raise InputError(
        "`model` must be an NPLM, an n-gram model, a Mixture or a Shortlist to be served. "
        f"Received: {type(model).__name__}. Fix: export one of these, without caches."
    )


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
        parts = [model.log_prob(take_last_words(context_ids, model.order - 1), target_ids) for model in self.models]
        return combine_log_probs(parts, self._find_weights(context_ids))

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        parts = [model.next_log_probs(take_last_words(context_ids, model.order - 1)) for model in self.models]
        return combine_log_probs(parts, [weight[:, None] for weight in self._find_weights(context_ids)])

    def _find_weights(self, context_ids: tf.Tensor) -> list[tf.Tensor]:
        """Return the weight of each component, a list of float64 [B]."""
        num_rows = tf.shape(context_ids)[0]
        bins = self.bins.find_bins(context_ids) if self.bins else tf.zeros(num_rows, tf.int32)
        return tf.unstack(tf.gather(self.weights, bins), axis=1)


class ShortlistGraph(GraphModel):
    """A short-list network and its background model as a graph; see `Shortlist` for the formulas."""

    def __init__(self, model: Shortlist):
        super().__init__(model)
        self.network, self.background = NetworkGraph(model.network), build_graph(model.background)
        self.listed, self.outside_output = model.listed, model.network.prob.outside_output

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.next_log_probs(context_ids), target_ids, batch_dims=1)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        outputs = self.network.next_output_log_probs(take_last_words(context_ids, self.network.order - 1))
        inside, outside_output = tf.split(tf.cast(outputs, tf.float64), [self.listed, int(self.outside_output)], axis=1)
        background = self.background.next_log_probs(take_last_words(context_ids, self.background.order - 1))
        outside = tf.cast(background[:, self.listed :], tf.float64)
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        if self.outside_output:
            zeros = tf.zeros_like(outside_output)
            outside += tf.where(mass == 0, zeros, outside_output - tf.math.log(mass))
            inside -= tf.where(mass == 0, tf.math.log(-tf.math.expm1(outside_output)), zeros)
        else:
            inside += tf.math.log1p(-mass)
        return tf.concat([inside, outside], axis=1)


_GRAPHS = {
    NPLM: NetworkGraph,
    Uniform: UniformGraph,
    BackoffModel: BackoffGraph,
    DeletedInterpolation: DeletedInterpolationGraph,
    ClassBased: ClassBasedGraph,
    Mixture: MixtureGraph,
    Shortlist: ShortlistGraph,
}
