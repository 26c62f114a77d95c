"""Base class of language models as TensorFlow graphs, and the tensor operations that its subclasses
share.
"""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.models.base import NextWordModel

BLOCK_ROWS = 512  # rows computed at a time, so that memory does not grow with the batch
_LEAST_ROWS = 16  # of a block, with the largest vocabularies
_BLOCK_NUMBERS = 1 << 24  # of a block [rows, |V|]: 64 MiB
_TOP_K_BLOCK = 128  # columns whose maximum `find_top_k` compares first


class GraphModel(tf.Module):
    """Base class of language models as TensorFlow graphs: P(w | context) for int32 tensors,
    `block_rows` at a time.
    """

    def __init__(self, model: NextWordModel):
        super().__init__()
        self.order = model.order
        self.vocabulary_size = model.vocabulary_size
        self.block_rows = min(BLOCK_ROWS, max(_LEAST_ROWS, _BLOCK_NUMBERS // model.vocabulary_size))

    def log_prob(self, context_ids: tf.Tensor, target_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(target | context), float [B] in nats, for int32 [B, n-1] and int32 [B] in the
        vocabulary.
        """
        raise NotImplementedError

    def next_log_probs(self, context_ids: tf.Tensor) -> tf.Tensor:
        """Return ln P(w | context) for every word w, float [B, |V|] in nats."""
        raise NotImplementedError

    def most_probable(
        self, context_ids: tf.Tensor, first: int, k: int, fits: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the k most probable ids >= `first`, [B, k], and P, float32; 0 without `fits`, bool
        [B, |V|-first].
        """
        log_probs, ids = find_top_k(exclude(self.next_log_probs(context_ids)[:, first:], fits), k)
        return ids + first, tf.cast(tf.exp(log_probs), tf.float32)


def exclude(log_probs: tf.Tensor, fits: tf.Tensor | None) -> tf.Tensor:
    """Return log-probabilities, float [B, C], with -inf where `fits`, bool [B, C], is false; all
    without `fits`.
    """
    return (
        log_probs
        if fits is None
        else tf.where(fits, log_probs, tf.constant(-np.inf, log_probs.dtype))
    )


def compute_in_blocks(
    compute: Callable[[slice], tuple[tf.Tensor, ...]],
    num_rows: tf.Tensor,
    block_rows: int,
    specs: list[tf.TensorSpec],
) -> tuple[tf.Tensor, ...]:
    """Concatenate the tensors of `compute(rows)`, of the given specs, over slices of at most
    `block_rows` rows.
    """
    number = (num_rows + block_rows - 1) // block_rows

    def add_block(block: tf.Tensor, *arrays: tf.Tensor) -> tf.Tensor:
        start = block * block_rows
        results = compute(slice(start, start + block_rows))
        written = [
            array.write(block, result) for array, result in zip(arrays, results, strict=True)
        ]
        return block + 1, *written

    def compute_blocks() -> tf.Tensor:
        options = dict(size=number, infer_shape=False)
        arrays = [tf.TensorArray(spec.dtype, element_shape=spec.shape, **options) for spec in specs]
        _, *arrays = tf.while_loop(
            lambda block, *_: block < number, add_block, [0, *arrays], parallel_iterations=1
        )
        return tuple(array.concat() for array in arrays)

    return tf.cond(number <= 1, lambda: tuple(compute(slice(0, None))), compute_blocks)


def find_top_k(values: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return `tf.math.top_k`, faster in long rows: only the k blocks with the greatest maxima are
    compared.
    """
    num_blocks = values.shape[1] // _TOP_K_BLOCK
    if num_blocks < 2 * k:
        return tf.math.top_k(values, k)
    covered = num_blocks * _TOP_K_BLOCK
    blocks = tf.reshape(values[:, :covered], [-1, num_blocks, _TOP_K_BLOCK])
    rest = values[:, covered:]
    best = tf.math.top_k(tf.reduce_max(blocks, axis=-1), k).indices  # [B, k]
    best = tf.sort(best)  # so that of equal values the first is returned, as `tf.math.top_k` does
    candidates = tf.reshape(tf.gather(blocks, best, batch_dims=1), [-1, k * _TOP_K_BLOCK])
    columns = tf.reshape(
        best[:, :, None] * _TOP_K_BLOCK + tf.range(_TOP_K_BLOCK), [-1, k * _TOP_K_BLOCK]
    )
    rest_columns = tf.broadcast_to(tf.range(covered, values.shape[1]), tf.shape(rest))
    top, places = tf.math.top_k(tf.concat([candidates, rest], axis=1), k)
    return top, tf.gather(tf.concat([columns, rest_columns], axis=1), places, batch_dims=1)


def combine_log_probs(log_probs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return ln sum_k weight_k P_k, float64, computed stably, from ln P_k of one shape, which may
    be -inf.
    """
    log_probs = [tf.cast(log_prob, tf.float64) for log_prob in log_probs]
    highest = functools.reduce(tf.maximum, log_probs)
    highest = tf.where(tf.math.is_finite(highest), highest, 0)
    terms = [
        weight * tf.exp(log_prob - highest)
        for log_prob, weight in zip(log_probs, weights, strict=True)
    ]
    return tf.math.log(functools.reduce(tf.add, terms)) + highest
