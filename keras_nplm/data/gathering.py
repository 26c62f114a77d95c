"""Gather n-grams in a pseudo-random order, as operations of TensorFlow: keys of the permutations, chunks of n-grams."""

import functools
import hashlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.ids import PAD_ID
from keras_nplm.data.shuffling import Pools

_ROUNDS = 10  # rounds of the cipher that permutes an epoch
_MULTIPLIER = 0x9E37  # 2**16 / golden ratio


def make_key(seed: int, epoch: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    """Return the key of a permutation, int32 [3]. The cipher uses 8 bits or more of each number: mix in the others."""
    digest = hashlib.sha256(str(seed >> 8).encode()).digest()[:12] if seed >> 8 else bytes(12)
    numbers = tf.stack([seed & 0xFF, epoch, number + epoch // 256 * _MULTIPLIER])
    return tf.bitwise.bitwise_xor(tf.cast(numbers, tf.int32), tf.constant(np.frombuffer(digest, np.int32)))


def draw_offset(segment: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Draw how far back the segments of an epoch begin, 0 to T-1: another offset in each of T epochs."""
    key, place = make_key(seed, epoch // segment, -1), tf.cast(epoch % segment, tf.int32)
    return tf.raw_ops.RandomIndexShuffle(index=place, seed=key, max_index=segment - 1, rounds=_ROUNDS)


def gather_segments(
    tokens: tf.Tensor,
    positions: tf.Tensor | None,
    offset: tf.Tensor | int,
    order: int,
    segment: int,
    targets_below: int | None,
    place: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gather n-grams of a text in memory, or segments. Without positions every place from n-1 on is a target."""
    position = place + (order - 1) if positions is None else tf.gather(positions, place)
    if segment == 1:
        context = tf.gather(tokens, position[:, None] + tf.range(1 - order, 0))  # [chunk, n-1]
        return context, tf.gather(tokens, position)
    words = tf.gather(tokens, (position - offset)[:, None] + tf.range(1 - order, segment))  # [chunk, n-1+T]
    targets = tf.maximum(words[:, order - 1 :], PAD_ID)
    if targets_below is not None:
        targets = tf.where(targets < targets_below, targets, PAD_ID)
    words = words[:, :-1]
    return tf.maximum(words, -1 - words), targets


def build_chunks(
    gather: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
    chunk: int,
    first: tf.Tensor | int,
    used: tf.Tensor | int,
    number: tf.Tensor | int,
    seed: tf.Tensor | None,
    part: tuple[int, int, int] | None = None,
) -> tf.data.Dataset:
    """Gather the n-grams of a text in memory, `chunk` at a time: places `first` to `used` of a permutation of `number`.

    Without a seed, int32 [3], the text is in order.
    With a part (b, w, N) `first` and `used` count its n-grams: b of each N b places, from place w b on.
    """

    def ngrams(start: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        place = tf.range(start, tf.minimum(start + chunk, used))
        if part is not None:
            size, worker, workers = part
            place += (place // size * (workers - 1) + worker) * size
        if seed is not None:
            # tf.random.experimental.index_shuffle has 4 rounds, after which neighbours still correlate (0.24)
            place = tf.raw_ops.RandomIndexShuffle(index=place, seed=seed, max_index=number - 1, rounds=_ROUNDS)
        return gather(place)

    starts = tf.data.Dataset.range(tf.cast(first, tf.int64), tf.cast(used, tf.int64), chunk, output_type=tf.int32)
    return starts.map(ngrams)


def build_pool_chunks(
    pools: Pools, gather: Callable, chunk: int, shuffle: bool, seed: int, first_epoch: int | None, skipped: int
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """Return a function from an epoch to its chunks of n-grams, pool after pool. The next pool is read in advance.

    `gather` gets the epoch, and of a pool the tokens, the positions and the numbers of its n-grams (`Pools`).
    """
    first_pool, first_ngram = pools.place(skipped) if skipped else (0, 0)

    def load(epoch: tf.Tensor, pool: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        tokens, positions = tf.numpy_function(pools.load, [epoch, pool], (tf.int32, tf.int32))
        numbers = tf.numpy_function(pools.number_ngrams, [epoch, pool], tf.int32)
        tokens, positions, numbers = (tf.ensure_shape(array, [None]) for array in (tokens, positions, numbers))
        return tokens, positions, numbers, pool

    def chunks(epoch: tf.Tensor) -> tf.data.Dataset:
        is_first = epoch == first_epoch if skipped else tf.constant(False)

        def of_pool(tokens: tf.Tensor, positions: tf.Tensor, numbers: tf.Tensor, pool: tf.Tensor) -> tf.data.Dataset:
            first = tf.where(is_first & (pool == first_pool), first_ngram, 0)
            pool_seed = make_key(seed, epoch, 1 + pool) if shuffle else None
            size = tf.size(positions)
            gather_places = gather(epoch, tokens, positions, numbers)
            return build_chunks(gather_places, chunk, first, size, size, pool_seed)

        numbers = tf.data.Dataset.range(tf.where(is_first, tf.cast(first_pool, tf.int64), 0), pools.count)
        return numbers.map(functools.partial(load, epoch)).prefetch(1).flat_map(of_pool)

    return chunks
