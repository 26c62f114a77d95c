"""Base class of language models as TensorFlow graphs, and the tensor operations that its subclasses share."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.models.base import NextWordModel

BLOCK_ROWS = 512  # rows computed at a time, so that memory does not grow with the batch
_TOP_K_BLOCK = 128  # columns whose maximum `find_top_k` compares first


class GraphModel(tf.Module):
    """Base class of language models as TensorFlow graphs: P(w | context) for int32 tensors of word ids.

    A subclass gives the same numbers as the Python class that it is made from.

    Args:
        model: the language model.

    Attributes:
        order: int, n. A context has n-1 words.
        vocabulary_size: int, |V|, special tokens included.
    """

    def __init__(self, model: NextWordModel):
        super().__init__()
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(target | context), float [B] in nats, for int32 [B, n-1] and int32 [B] in the vocabulary."""
        raise NotImplementedError

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(w | context) for every word w, float [B, |V|] in nats."""
        raise NotImplementedError

    def most_probable(self, context_ids: tf.Tensor, first: int, k: int) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the k most probable ids >= `first`, int32 [B, k], and their probabilities, float32 [B, k]."""
        log_probs, ids = find_top_k(self.next_log_probs(context_ids)[:, first:], k)
        return ids + first, tf.cast(tf.exp(log_probs), tf.float32)


def store_array(array: np.ndarray) -> tf.Variable:
    """Return a constant of the graph that is saved with the variables, since a graph file is limited to 2 GB."""
    return tf.Variable(array, trainable=False)


def take_last_words(context_ids: tf.Tensor, size: int) -> tf.Tensor:
    """Return the last `size` words of each context, int32 [B, size]."""
    return context_ids[:, context_ids.shape[1] - size :]


def compute_in_blocks(compute: Callable[[slice], tf.Tensor], num_rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Concatenate `compute(rows)`, one number a row, over blocks of `BLOCK_ROWS` rows.

    Args:
        compute: from a slice of at most `BLOCK_ROWS` rows to a tensor [rows] of `dtype`.
        num_rows: int32 scalar.
        dtype: the type of the result.

    Returns:
        `dtype` [num_rows].
    """

    def has_more(start, results):
        del results
        return start < num_rows

    def add_block(start, results):
        block = compute(slice(start, start + BLOCK_ROWS))
        return start + BLOCK_ROWS, tf.concat([results, block], axis=0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    _, results = tf.while_loop(has_more, add_block, [0, tf.zeros([0], dtype)], shapes, parallel_iterations=1)
    return results


def find_top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the k greatest values of each row in descending order, and their columns, as `tf.math.top_k` does.

    `tf.math.top_k` pushes each value of a row through a heap. In long rows this function first takes the maximum of
    each block of columns, and then compares only the values of the k blocks with the greatest maxima.

    Args:
        values: float [B, C].
        k: at most C.

    Returns:
        values, float [B, k], and columns, int32 [B, k].
    """
    num_blocks = values.shape[1] // _TOP_K_BLOCK
    if num_blocks < 2 * k:
        return tf.math.top_k(values, k)
    covered = num_blocks * _TOP_K_BLOCK
    blocks, rest = tf.reshape(values[:, :covered], [-1, num_blocks, _TOP_K_BLOCK]), values[:, covered:]
    best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), k).indices  # [B, k]
    best = tf.sort(best)  # so that of equal values the first is returned, as `tf.math.top_k` does
    candidates = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, k * _TOP_K_BLOCK])
    columns = tf.reshape(best[:, :, None] * _TOP_K_BLOCK + tf.range(_TOP_K_BLOCK), [-1, k * _TOP_K_BLOCK])
    rest_columns = tf.broadcast_to(tf.range(covered, values.shape[1]), tf.shape(rest))
    top, places = tf.math.top_k(tf.concat([candidates, rest], axis=1), k)
    return top, tf.gather(tf.concat([columns, rest_columns], axis=1), places, batch_dims=1)


def combine_log_probs(log_probs, weights) -> tf.Tensor:
    """Return ln sum_k weight_k P_k, float64, computed stably; see `keras_nplm.models.ngrams.interpolation.combine`.

    Args:
        log_probs: ln P_k of each component, tensors of one shape, in nats; -inf is allowed.
        weights: one of each component, numbers or tensors that broadcast.
    """
    log_probs = [tf.cast(log_prob, tf.float64) for log_prob in log_probs]
    highest = functools.reduce(tf.maximum, log_probs)
    highest = tf.where(tf.math.is_finite(highest), highest, 0)
    terms = [weight * tf.exp(log_prob - highest) for log_prob, weight in zip(log_probs, weights, strict=True)]
    return tf.math.log(functools.reduce(tf.add, terms)) + highest
