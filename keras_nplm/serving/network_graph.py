"""TODO doc."""

import functools

import numpy as np
import tensorflow as tf

from keras_nplm.layers.ops import log_sum_exp
from keras_nplm.layers.outputs import EnergyOutput, LinearOutput
from keras_nplm.models.evaluation import LogProb
from keras_nplm.models.mixture import Uniform
from keras_nplm.models.nplm import NPLM

BLOCK = 128  # numbers whose greatest is found together
NEVER = float("-inf")  # ln P of what is never predicted
ROWS = 512  # n-grams whose output is computed at a time: what they need of memory does not grow with a text


class GraphModel(tf.Module):
    """A language model in a graph: `log_prob` [B] and `next_log_probs` [B, |V|] of int32 tensors, in nats.

    What a model of the package answers in Python with NumPy, this answers with the same numbers in a graph.
    """

    def __init__(self, model: LogProb):
        super().__init__()
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """ln P(target | context), float [B], for int32 [B, n-1] and int32 [B] in the vocabulary."""
        raise NotImplementedError

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """ln P(w | context) for every word w, float [B, |V|]."""
        raise NotImplementedError

    def most_probable(self, context_ids: tf.Tensor, first: int, k: int) -> tuple[tf.Tensor, tf.Tensor]:
        """The k most probable of the ids from `first` on, int32 [B, k], and P of each, float32 [B, k]."""
        log_probs, ids = top_k(self.next_log_probs(context_ids)[:, first:], k)
        return ids + first, tf.cast(tf.exp(log_probs), tf.float32)


class NetworkGraph(GraphModel):
    """The network's own layers; what they read is kept, and what training alone needs is left behind."""

    def __init__(self, model: NPLM):
        super().__init__(model)
        self._network = lambda: model  # were it an attribute, all of its weights would be saved
        ids = tf.TensorSpec([None, self.order - 1], tf.int32), tf.TensorSpec([None], tf.int32)
        answers = tf.function(lambda context, target: (self.next_log_probs(context), self.log_prob(context, target)))
        self.weights = list(answers.get_concrete_function(*ids).graph.variables)

    def log_prob(self, context_ids, target_ids):
        listed = self._network().listed
        log_prob = self.output_log_prob(context_ids, tf.minimum(target_ids, listed - 1))
        return log_prob if listed == self.vocabulary_size else tf.where(target_ids < listed, log_prob, NEVER)

    def output_log_prob(self, context_ids, target_ids):
        """ln P of outputs: words that are predicted, or the short-list's outside."""
        network = self._network()

        def some(start, done):
            part = slice(start, start + ROWS)
            if isinstance(network.prob, EnergyOutput):  # its own has parts that XLA compiles: a server may lack it
                log_prob = tf.gather(self.next_log_probs(context_ids[part]), target_ids[part], batch_dims=1)
            else:
                log_prob = network.prob.log_prob(network.features(context_ids[part]), target_ids[part])
            return start + ROWS, tf.concat([done, log_prob], axis=0)

        shapes = [tf.TensorShape([]), tf.TensorShape([None])]
        more = functools.partial(is_before, tf.size(target_ids))
        return tf.while_loop(more, some, [0, tf.zeros([0])], shapes, parallel_iterations=1)[1]

    def next_log_probs(self, context_ids):
        listed = self._network().listed
        log_probs = self.next_output_log_probs(context_ids)[:, :listed]
        return tf.pad(log_probs, [[0, 0], [0, self.vocabulary_size - listed]], constant_values=NEVER)

    def next_output_log_probs(self, context_ids):
        """The same for every output, float [B, outputs]."""
        network = self._network()
        return network.prob.log_probs(network.features(context_ids))

    def most_probable(self, context_ids, first, k):
        network = self._network()
        if not isinstance(network.prob, LinearOutput) or network.shortlist_size is not None:
            return super().most_probable(context_ids, first, k)
        logits = network.prob(network.features(context_ids))  # ln Z alone is wanted, not all log-probabilities
        chosen, ids = top_k(logits[:, first:], k)
        return ids + first, tf.exp(chosen - log_sum_exp(logits)[:, None])


class UniformGraph(GraphModel):
    def __init__(self, model: Uniform):
        super().__init__(model)
        self.distribution = constant_table(model.next_log_probs(np.zeros((1, 1), np.int32))[0])

    def log_prob(self, context_ids, target_ids):
        return tf.gather(self.distribution, target_ids)

    def next_log_probs(self, context_ids):
        return tf.tile(self.distribution[None], [tf.shape(context_ids)[0], 1])


def is_before(end, start, done):
    """Whether a loop over rows goes on."""
    del done
    return start < end


def constant_table(array: np.ndarray) -> tf.Variable:
    return tf.Variable(array, trainable=False)


def last_words(context_ids, size: int):
    return context_ids[:, context_ids.shape[1] - size :]


def top_k(values, k: int):
    """The k greatest of each row, descending, and their places; as `tf.math.top_k`, which compares all with a heap.

    Of long rows, blocks are compared by their greatest number first, and then the numbers of the k best blocks.
    """
    number = values.shape[1] // BLOCK
    if number < 2 * k:
        return tf.math.top_k(values, k)
    blocks, rest = tf.reshape(values[:, : number * BLOCK], [-1, number, BLOCK]), values[:, number * BLOCK :]
    best = tf.sort(tf.math.top_k(tf.reduce_max(blocks, axis=-1), k).indices)  # [B, k]; of equals the first, as there
    chosen = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, k * BLOCK])
    places = tf.reshape(best[:, :, None] * BLOCK + tf.range(BLOCK), [-1, k * BLOCK])
    after = tf.broadcast_to(tf.range(number * BLOCK, values.shape[1]), tf.shape(rest))
    greatest, which = tf.math.top_k(tf.concat([chosen, rest], axis=1), k)
    return greatest, tf.gather(tf.concat([places, after], axis=1), which, batch_dims=1)


def combine_log_probs(log_probs, weights):
    """ln sum_k weight_k P_k, float64; see `keras_nplm.models.ngrams.interpolation.combine`."""
    log_probs = [tf.cast(part, tf.float64) for part in log_probs]
    highest = functools.reduce(tf.maximum, log_probs)
    highest = tf.where(tf.math.is_finite(highest), highest, 0)
    terms = [weight * tf.exp(part - highest) for part, weight in zip(log_probs, weights, strict=True)]
    return tf.math.log(functools.reduce(tf.add, terms)) + highest
