"""The language models as TensorFlow graphs: the same questions, tensors in and out."""

import functools

import tensorflow as tf

from keras_nplm.io.errors import InputError
from keras_nplm.models.evaluation import LogProb
from keras_nplm.models.mixture import Mixture, Uniform
from keras_nplm.models.ngrams import BackoffModel, ClassBased, DeletedInterpolation
from keras_nplm.models.ngrams.mass import BackoffMass
from keras_nplm.models.nplm import NPLM
from keras_nplm.models.shortlist import Shortlist
from keras_nplm.serving.network_graph import (
    ROWS,
    GraphModel,
    NetworkGraph,
    UniformGraph,
    combine_log_probs,
    constant_table,
    is_before,
    last_words,
)
from keras_nplm.serving.ngram_graphs import (
    BackoffGraph,
    BackoffMassGraph,
    BinsGraph,
    ClassBasedGraph,
    DeletedInterpolationGraph,
)


def graph_of(model: LogProb) -> GraphModel:
    """The graph of a language model of any kind that a model directory holds.

    Raises:
        InputError: there is none for it.
    """
    for kind, graph in _GRAPHS.items():
        if isinstance(model, kind):
            return graph(model)
    raise InputError(f"A {type(model).__name__} cannot be served: export an NPLM, an n-gram model or a mixture.")


class MixtureGraph(GraphModel):
    """A convex combination; see `Mixture`."""

    def __init__(self, model: Mixture):
        super().__init__(model)
        self.models = [graph_of(component) for component in model.models]
        self.weights = constant_table(model.weights)
        self.bins = BinsGraph(model.bins) if model.bins else None

    def log_prob(self, context_ids, target_ids):
        parts = [model.log_prob(last_words(context_ids, model.order - 1), target_ids) for model in self.models]
        return combine_log_probs(parts, self._weights(context_ids))

    def next_log_probs(self, context_ids):
        parts = [model.next_log_probs(last_words(context_ids, model.order - 1)) for model in self.models]
        return combine_log_probs(parts, [weight[:, None] for weight in self._weights(context_ids)])

    def _weights(self, context_ids):
        number = tf.shape(context_ids)[0]
        bins = self.bins.of(context_ids) if self.bins else tf.zeros(number, tf.int32)
        return tf.unstack(tf.gather(self.weights, bins), axis=1)


class SummedMassGraph(tf.Module):
    """The mass of the words from an id on under any model; see `SummedMass`."""

    def __init__(self, model: GraphModel, first: int):
        super().__init__()
        self.model, self.first = model, first

    def of(self, context_ids):
        def some(start, done):
            log_probs = self.model.next_log_probs(context_ids[start : start + ROWS])[:, self.first :]
            mass = tf.reduce_sum(tf.exp(tf.cast(log_probs, tf.float64)), axis=1)
            return start + ROWS, tf.concat([done, mass], axis=0)

        shapes, nothing = [tf.TensorShape([]), tf.TensorShape([None])], tf.zeros([0], tf.float64)
        more = functools.partial(is_before, tf.shape(context_ids)[0])
        return tf.while_loop(more, some, [0, nothing], shapes, parallel_iterations=1)[1]


class ShortlistGraph(GraphModel):
    """A network on its short-list, and a background; see `Shortlist`."""

    def __init__(self, model: Shortlist):
        super().__init__(model)
        self.network, self.background = NetworkGraph(model.network), graph_of(model.background)
        self.listed, self.outside_output = model.listed, model.network.outside_output
        if isinstance(model.mass, BackoffMass):
            self.mass = BackoffMassGraph(model.mass, self.background.contexts)
        else:
            self.mass = SummedMassGraph(self.background, self.listed)

    def log_prob(self, context_ids, target_ids):
        inside = target_ids < self.listed
        seen = last_words(context_ids, self.background.order - 1)
        mass = tf.minimum(self.mass.of(seen), 1)
        log_prob = tf.cast(self.background.log_prob(seen, target_ids), tf.float64)
        log_prob = tf.where(inside, tf.zeros_like(log_prob), log_prob)
        if not self.outside_output:
            rows = tf.where(inside)  # [I, 1]: the network is asked for these alone
            outputs = self._outputs(tf.gather(context_ids, rows[:, 0]), tf.gather(target_ids, rows[:, 0]))
            log_share = tf.math.log1p(-tf.gather(mass, rows[:, 0]))
            return tf.tensor_scatter_nd_update(log_prob, rows, outputs + log_share)
        log_prob += self._outputs(context_ids, tf.minimum(target_ids, self.listed))
        alone = tf.where(inside & (mass == 0))
        other = self._outputs(tf.gather(context_ids, alone[:, 0]), tf.fill([tf.shape(alone)[0]], self.listed))
        log_prob = tf.tensor_scatter_nd_sub(log_prob, alone, tf.math.log(-tf.math.expm1(other)))
        return tf.where(inside | (mass == 0), log_prob, log_prob - tf.math.log(mass))

    def _outputs(self, context_ids, output_ids):
        return tf.cast(
            self.network.output_log_prob(last_words(context_ids, self.network.order - 1), output_ids), tf.float64
        )

    def next_log_probs(self, context_ids):
        outputs = self.network.next_output_log_probs(last_words(context_ids, self.network.order - 1))
        inside, other = tf.split(tf.cast(outputs, tf.float64), [self.listed, int(self.outside_output)], axis=1)
        outside = self.background.next_log_probs(last_words(context_ids, self.background.order - 1))[:, self.listed :]
        outside = tf.cast(outside, tf.float64)
        mass = tf.minimum(tf.reduce_sum(tf.exp(outside), axis=1, keepdims=True), 1)
        if self.outside_output:
            outside += tf.where(mass == 0, tf.zeros_like(other), other - tf.math.log(mass))
            inside -= tf.where(mass == 0, tf.math.log(-tf.math.expm1(other)), tf.zeros_like(other))
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
