"""Networks, mixtures, short-lists and hybrids as TensorFlow graphs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from keras_nplm.data.text_ops import store_array
from keras_nplm.layers.scores import LinearScores, Scores
from keras_nplm.models.base import cut_contexts, find_network
from keras_nplm.models.hybrid import Hybrid
from keras_nplm.models.keras_model import KerasModel
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.models.shortlist import Shortlist
from keras_nplm.serving.graph_model import (
    TOP_K_BLOCK,
    GraphModel,
    build_graph,
    combine_log_probs,
    rank_words,
    take_logarithm,
)
from keras_nplm.serving.ngram_graphs import FrequencyBinsGraph

_LOG_ZERO = float("-inf")
_NO_WORD = -1e30  # the logit of a column that stands for no word; its exponential is 0


@build_graph.register(ContextNetwork)
class NetworkGraph(GraphModel):
    """The layers of a network as a graph, with the variables that inference reads and no others.

    Servers multiply by one stored matrix where y = b + K f. In files for devices K and b stay
    apart, since 8 bits of one scale cannot hold both, and all layers compute in float32.
    """

    def __init__(self, model: ContextNetwork | Hybrid, for_devices: bool = False):
        super().__init__(model)
        network = find_network(model)
        if for_devices:
            network = _copy_for_devices(network)
        # as an attribute, `tf.saved_model.save` would store all of its variables
        self._get_network = lambda: network
        self.num_outputs = network.prob.num_outputs
        # 7 ms in place of 80 on servers; devices lack its operations
        self.sums_paths = network.prob.is_normalised and not for_devices
        self.product: tf.Variable | None = None
        if not for_devices:
            scores = self.compute_scores(tf.zeros([1, self.order - 1], tf.int32))
            if isinstance(scores, LinearScores):
                self.product = _store_product(scores)
        self.weights = list_read_variables(self.next_log_probs, self.order)

    @property
    def network(self) -> ContextNetwork:
        return self._get_network()

    def compute_scores(self, context_ids: tf.Tensor) -> Scores:
        """Return what the network says of its words."""
        return self.network.scores(context_ids)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        output_ids = tf.minimum(target_ids, self.num_outputs - 1)
        if self.sums_paths:
            log_prob = self.compute_scores(context_ids).logit(output_ids)
        else:
            logits = self._compute_logits(context_ids)
            # `softmax` is one pass of vectorised operations, `reduce_logsumexp` four passes
            greatest = tf.reduce_max(logits, axis=-1)
            log_greatest = tf.math.log(tf.reduce_max(tf.nn.softmax(logits), axis=-1))
            log_prob = tf.gather(logits, output_ids, batch_dims=1) - greatest + log_greatest
        return tf.where(target_ids < self.num_outputs, log_prob, _LOG_ZERO)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        logits = self._compute_logits(context_ids)
        log_probs = tf.nn.log_softmax(logits[:, : self.num_outputs])
        padding = [[0, 0], [0, self.vocabulary_size - self.num_outputs]]
        return tf.pad(log_probs, padding, constant_values=_LOG_ZERO)

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        if self.num_outputs < self.vocabulary_size:
            return super().most_probable(context_ids, first, k, fits)
        logits = self._compute_logits(context_ids)
        top, ids = rank_words(logits, first, k, fits)
        # one pass of vectorised operations; a log-sum-exp takes four
        probabilities = tf.gather(tf.nn.softmax(logits), ids, batch_dims=1)
        probabilities = tf.where(top > _LOG_ZERO, probabilities, 0)  # of a word that fits
        return ids, tf.cast(probabilities, tf.float32)

    def _compute_logits(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return y of the outputs, float [B, outputs], and perhaps columns of probability 0."""
        scores = self.compute_scores(context_ids)
        if self.product is None or not isinstance(scores, LinearScores):
            return scores.logits()
        ones = tf.ones([tf.shape(context_ids)[0], 1], scores.features.dtype)
        return tf.matmul(tf.concat([scores.features, ones], axis=1), self.product)


def _store_product(linear: LinearScores) -> tf.Variable:
    """Store [K b]^T, by which [f; 1] is multiplied, with columns of no words.

    It replaces the weights of the head in the served graph. For 32 contexts of the paper's network
    on Brown this product takes 1.4 ms, K f with the rows of K 2.4 ms, and the sum with b 0.2 ms.
    A whole number of blocks of columns lets `find_top_k` compare blocks without a copy of y.
    """
    kernel = ops.convert_to_numpy(linear.kernel())  # [outputs, w]
    num_outputs, width = kernel.shape
    num_columns = -(-num_outputs // TOP_K_BLOCK) * TOP_K_BLOCK
    product = np.zeros((width + 1, num_columns), linear.features.dtype.as_numpy_dtype)
    product[:width, :num_outputs] = kernel.T
    product[width] = _NO_WORD
    product[width, :num_outputs] = ops.convert_to_numpy(linear.bias)
    return store_array(product)


def list_read_variables(function: Callable[[tf.Tensor], Any], order: int) -> list[tf.Variable]:
    """Return the variables that a function of contexts reads."""
    contexts = tf.TensorSpec([None, order - 1], tf.int32)
    traced = tf.function(function, [contexts], autograph=False).get_concrete_function()
    return list(traced.graph.variables)


def _copy_for_devices(network: ContextNetwork) -> ContextNetwork:
    """Return a copy of the network that computes in float32 and without loops, which every runtime
    supports.
    """
    copy = type(network).from_config(_replace_dtypes(network.get_config()))
    copy.set_weights(network.get_weights())
    copy.prob.uses_loops = False
    return copy


def _replace_dtypes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a network with float32 as the dtype of each layer."""
    replaced: dict[str, Any] = {}
    for key, value in config.items():
        if key == "dtype":
            replaced[key] = "float32"
        elif isinstance(value, dict):
            replaced[key] = _replace_dtypes(value)
        else:
            replaced[key] = value
    return replaced


# without the n-gram model that it reads; see `HybridGraph`
build_graph.register(HybridNetwork, build_graph.dispatch(object))


@build_graph.register(Hybrid)
class HybridGraph(NetworkGraph):
    """A network and the n-gram model inside it as a graph; see `Hybrid`."""

    def __init__(self, model: Hybrid, for_devices: bool = False):
        self.background = build_graph(model.background, for_devices)
        super().__init__(model, for_devices)

    def compute_scores(self, context_ids: tf.Tensor) -> Scores:
        log_q = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        contexts = cut_contexts(self.network, context_ids)
        return self.network.scores({"contexts": contexts, "log_q": tf.cast(log_q, tf.float32)})


@build_graph.register(KerasModel)
class KerasModelGraph(GraphModel):
    """A plain Keras model as a graph, with the variables that inference reads and no others."""

    def __init__(self, model: KerasModel, for_devices: bool = False):
        super().__init__(model)
        self._get_model = lambda: model.model  # see `NetworkGraph`
        self.weights = list_read_variables(self.next_log_probs, self.order)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.math.log(tf.cast(self._get_model()(context_ids, training=False), tf.float32))


@build_graph.register(Uniform)
class UniformGraph(GraphModel):
    """The uniform distribution as a graph; see `Uniform`."""

    def __init__(self, model: Uniform, for_devices: bool = False):
        super().__init__(model)
        any_context = np.zeros((1, 1), np.int32)
        self.distribution = store_array(model.next_log_probs(any_context)[0].astype(np.float32))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


@build_graph.register(Mixture)
class MixtureGraph(GraphModel):
    """A convex combination of language models as a graph; see `Mixture`."""

    def __init__(self, model: Mixture, for_devices: bool = False):
        super().__init__(model)
        self.models = [build_graph(part, for_devices) for part in model.models]
        log_weights = take_logarithm(model.weights)
        self.bins = FrequencyBinsGraph(model.bins, for_devices) if model.bins else None
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

    def __init__(self, model: Shortlist, for_devices: bool = False):
        super().__init__(model)
        self.network = build_graph(model.network, for_devices)
        self.background = build_graph(model.background, for_devices)
        self.num_listed = model.listed

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        inside = self.network.next_log_probs(cut_contexts(self.network, context_ids))
        background = self.background.next_log_probs(cut_contexts(self.background, context_ids))
        outside = background[:, self.num_listed :]
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        return tf.concat([inside[:, : self.num_listed] + tf.math.log(1 - mass), outside], axis=1)
