"""Shards of ids -> a tf.data pipeline of n-grams: (context_ids [B, n-1], target_ids [B])."""

import functools
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.shuffling import Pools, Resampled, ResampledPools, concatenate_texts, count_resampled
from keras_nplm.io.errors import InputError

_ROUNDS = 10  # of the cipher that permutes an epoch
_CHUNK = 1 << 14  # n-grams gathered at a time, then cut into batches: the cost of an operation is spread over them


def ngram_dataset(
    ids: np.ndarray | ShardedIds | Resampled,
    order: int,
    batch_size: int,
    *,
    boundary: str = "sentence",
    shuffle: bool = True,
    seed: int = 0,
    drop_remainder: bool = False,
    first_epoch: int | None = None,
    first_batch: int = 0,
    targets_below: int | None = None,
) -> tf.data.Dataset:
    """Batches of (context_ids int32 [B, n-1] oldest first, target_ids int32 [B]): each n-gram once an epoch.

    The order within an epoch is a pseudo-random permutation of all n-grams that takes no memory: place i of the epoch
    is found by a small cipher of i. Iterating again is a new epoch with a new permutation; a dataset made with the
    same seed runs through the same sequence of epochs. An array of ids is held in memory. Of shards about 4 million
    ids are held at a time, and the shuffle has two levels: blocks of 2**17 ids in an order of the epoch, and a
    permutation of the n-grams of the next 32 of them. Of several texts an epoch shows the share of each that is asked
    for; see `Resampled`.

    Args:
        ids: int32 [T], each sentence closed by `</s>`, as `EncodedCorpus.ids` gives them, or `EncodedCorpus.shards`;
            or several of them with shares, `Resampled`.
        order: n, 2 or more.
        batch_size: B.
        boundary: `"stream"` or `"sentence"`; see `ngram_positions`.
        shuffle: permute the n-grams; else they come in the order of the text.
        seed: of the permutations.
        drop_remainder: leave out the last, smaller batch of an epoch (training under tf.distribute wants that).
        first_epoch: give an endless dataset instead, whose epochs are numbered from this one and follow one another:
            what a run that was interrupted goes on from. For `fit(steps_per_epoch=…)`.
        first_batch: leave out so many batches of the first epoch, at no cost.
        targets_below: leave out the n-grams whose target is this id or one above, a word outside a short-list; they
            are in the contexts of others still. Default: none are left out.

    Returns:
        a dataset whose `cardinality()` is the number of batches in an epoch (infinite with `first_epoch`).

    Raises:
        InputError: an option is out of range, the text is too short, or is `Resampled` and not to be shuffled.

    Example:

    >>> dataset = ngram_dataset(np.array([7, 8, 9, 3], np.int32), order=3, batch_size=2, shuffle=False)
    >>> [(context.tolist(), target.tolist()) for context, target in dataset.as_numpy_iterator()]
    [([[2, 2], [2, 7]], [7, 8]), ([[7, 8], [8, 9]], [9, 3])]
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be 1 or more. Received: {batch_size}.")
    if isinstance(ids, Resampled) and not shuffle:
        raise InputError("Texts of which an epoch shows shares are shuffled together. Received: shuffle=False.")
    pools = _pools(ids, order, boundary, shuffle, seed, targets_below)
    draws = []
    if pools:
        number = pools.number
    elif isinstance(ids, Resampled):
        tokens, draws = _draws(ids, order, boundary, seed, targets_below)
        number = sum(drawn for _, drawn in draws)
    else:
        tokens, positions = ngram_positions(ids, order, boundary, targets_below)
        number = len(positions)
    batches = number // batch_size if drop_remainder else -(-number // batch_size)
    if not batches:
        raise InputError(f"{number} n-grams do not fill a batch of {batch_size}: give more text or a smaller batch.")
    if not 0 <= first_batch < batches or (first_batch and first_epoch is None):
        raise InputError(f"`first_batch` must be 0 to {batches - 1}, with `first_epoch`. Received: {first_batch}.")
    skipped = first_batch * batch_size  # n-grams of the first epoch
    chunk = max(1, _CHUNK // batch_size) * batch_size
    if pools:
        chunks = _pooled_chunks(pools, order, chunk, shuffle, seed, first_epoch, skipped)
    else:
        used = min(number, batches * batch_size)  # n-grams of an epoch
        tokens = tf.constant(tokens)
        # in a stream the positions are a range: an offset does, and spares a look-up
        is_range = boundary == "stream" and targets_below is None
        positions = None if draws or is_range else tf.constant(positions)

        def chunks(epoch: tf.Tensor) -> tf.data.Dataset:
            first = tf.where(epoch == first_epoch, skipped, 0) if skipped else 0
            epoch_seed = tf.cast(tf.stack([seed, epoch, 0]), tf.int32) if shuffle else None
            shown = _shown(draws, epoch) if draws else positions
            return _chunks(tokens, shown, order, chunk, first, used, number, epoch_seed)

    def batched(epoch: tf.Tensor) -> tf.data.Dataset:
        return chunks(epoch).prefetch(2).rebatch(batch_size, drop_remainder=drop_remainder)

    if first_epoch is not None:
        return tf.data.Dataset.counter(first_epoch, 1).flat_map(batched)
    epochs = tf.Variable(-1, dtype=tf.int64, trainable=False)  # of this dataset, whatever else draws random numbers
    numbers = tf.data.Dataset.range(1).map(lambda _: epochs.assign_add(1))
    return numbers.flat_map(batched).apply(tf.data.experimental.assert_cardinality(batches))


def _pools(
    ids, order: int, boundary: str, shuffle: bool, seed: int, targets_below: int | None
) -> Pools | ResampledPools | None:
    """What reads ids that are not in memory; None of those that are."""
    if isinstance(ids, ShardedIds):
        return Pools(ids, order, boundary, shuffle=shuffle, seed=seed, targets_below=targets_below)
    if isinstance(ids, Resampled) and not ids.in_memory:
        return ResampledPools(ids, order, boundary, seed=seed, targets_below=targets_below)
    return None


def _draws(
    resampled: Resampled, order: int, boundary: str, seed: int, targets_below: int | None
) -> tuple[np.ndarray, list[tuple[tf.Tensor, int]]]:
    """Texts in memory laid out as one; of each its positions as epochs go through them, and how many one shows."""
    tokens, parts = concatenate_texts(ngram_positions(text, order, boundary, targets_below) for text in resampled.texts)
    draws = []
    for text, (positions, share) in enumerate(zip(parts, resampled.shares, strict=True)):
        drawn = count_resampled(share, len(positions))
        if drawn < len(positions):
            positions = np.random.default_rng([seed % (1 << 64), text]).permutation(positions)
        draws.append((tf.constant(positions), drawn))
    return tokens, draws


def _shown(draws: list[tuple[tf.Tensor, int]], epoch: tf.Tensor) -> tf.Tensor:
    """The positions of the n-grams that an epoch shows: of each text the next ones, on from its start at its end."""
    parts = []
    for positions, drawn in draws:
        size = int(positions.shape[0])
        start = epoch * drawn % size
        parts += [positions[start : start + drawn], positions[: tf.maximum(start + drawn - size, 0)]]
    return tf.concat(parts, axis=0)


def _chunks(
    tokens: tf.Tensor,
    positions: tf.Tensor | None,
    order: int,
    chunk: int,
    first: tf.Tensor | int,
    used: tf.Tensor | int,
    number: tf.Tensor | int,
    seed: tf.Tensor | None,
) -> tf.data.Dataset:
    """N-grams of a text in memory, `chunk` of them at a time: those at places `first` to `used` of a permutation.

    Args:
        tokens: the text, as `ngram_positions` lays it out.
        positions: where n-grams end there; None: at every place from n-1 on.
        order: n.
        chunk: n-grams at a time.
        first: how many to leave out.
        used: how many there are to be, with those that are left out.
        number: of n-grams in the text.
        seed: int32 [3], of the permutation; None: the order of the text.
    """

    def ngrams(start: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        place = tf.range(start, tf.minimum(start + chunk, used))
        if seed is not None:
            # tf.random.experimental.index_shuffle, but with rounds enough that neighbours are uncorrelated (4: 0.24)
            place = tf.raw_ops.RandomIndexShuffle(index=place, seed=seed, max_index=number - 1, rounds=_ROUNDS)
        position = place + (order - 1) if positions is None else tf.gather(positions, place)
        context = tf.gather(tokens, position[:, None] + tf.range(1 - order, 0))  # [chunk, n-1]
        return context, tf.gather(tokens, position)

    starts = tf.data.Dataset.range(tf.cast(first, tf.int64), tf.cast(used, tf.int64), chunk, output_type=tf.int32)
    return starts.map(ngrams)


def _pooled_chunks(
    pools: Pools, order: int, chunk: int, shuffle: bool, seed: int, first_epoch: int | None, skipped: int
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    """The same from shards: a function from an epoch to its chunks, pool after pool, the next one read meanwhile."""
    first_pool, first_ngram = pools.place(first_epoch, skipped) if skipped else (0, 0)

    def load(epoch: tf.Tensor, pool: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        tokens, positions = tf.numpy_function(pools.load, [epoch, pool], (tf.int32, tf.int32))
        return tf.ensure_shape(tokens, [None]), tf.ensure_shape(positions, [None]), pool

    def chunks(epoch: tf.Tensor) -> tf.data.Dataset:
        is_first = epoch == first_epoch if skipped else tf.constant(False)

        def of_pool(tokens: tf.Tensor, positions: tf.Tensor, pool: tf.Tensor) -> tf.data.Dataset:
            first = tf.where(is_first & (pool == first_pool), first_ngram, 0)
            pool_seed = tf.cast(tf.stack([seed, epoch, 1 + pool]), tf.int32) if shuffle else None
            return _chunks(tokens, positions, order, chunk, first, tf.size(positions), tf.size(positions), pool_seed)

        numbers = tf.data.Dataset.range(tf.where(is_first, tf.cast(first_pool, tf.int64), 0), pools.count)
        return numbers.map(functools.partial(load, epoch)).prefetch(1).flat_map(of_pool)

    return chunks
