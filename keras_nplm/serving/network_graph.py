"""NPLM as a TensorFlow graph."""

import tensorflow as tf

from keras_nplm.models.nplm import NPLM
from keras_nplm.serving.graph_model import GraphModel, exclude, find_top_k

_LOG_ZERO = float("-inf")


class NetworkGraph(GraphModel):
    """The layers of an NPLM as a graph, with the variables that inference reads and no others.

    An output is a word that the network predicts. A short-list network has outputs for the words of its list only, and
    perhaps one for all other words.
    """

    def __init__(self, model: NPLM):
        super().__init__(model)
        self._network = lambda: model  # as an attribute, `tf.saved_model.save` would store all of its variables
        ids = tf.TensorSpec([None, self.order - 1], tf.int32), tf.TensorSpec([None], tf.int32)
        inference = tf.function(lambda context, target: (self.next_log_probs(context), self.log_prob(context, target)))
        self.weights = list(inference.get_concrete_function(*ids).graph.variables)

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        listed = self._network().prob.listed
        log_prob = self.output_log_prob(context_ids, tf.minimum(target_ids, listed - 1))
        return log_prob if listed == self.vocabulary_size else tf.where(target_ids < listed, log_prob, _LOG_ZERO)

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        listed = self._network().prob.listed
        log_probs = self.next_output_log_probs(context_ids)[:, :listed]
        return tf.pad(log_probs, [[0, 0], [0, self.vocabulary_size - listed]], constant_values=_LOG_ZERO)

    def output_log_prob(self, context_ids: tf.Tensor, output_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(output | context), float32 [B]."""
        network = self._network()
        if network.prob.includes_hidden_layer:  # its `log_prob` needs XLA, which a server may not have
            return tf.gather(self.next_log_probs(context_ids), output_ids, batch_dims=1)
        return network.prob.log_prob(network.features(context_ids), output_ids)

    def next_output_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(output | context) for every output, float [B, outputs]."""
        network = self._network()
        return network.prob.log_probs(network.features(context_ids))

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        network = self._network()
        if not network.prob.has_output_vectors or network.prob.shortlist_size is not None:
            return super().most_probable(context_ids, first, k, fits)
        logits = network.prob.logits(network.features(context_ids))
        logits_of_words = exclude(logits[:, first:], fits)
        top, ids = find_top_k(logits_of_words, k)  # only k log-probabilities are needed, so logits are not normalised
        top -= tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
        return ids + first, tf.cast(tf.exp(top), tf.float32)
