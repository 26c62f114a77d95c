"""Order of the n-grams in an epoch: pool after pool, each permuted on its own.

A small cipher of i gives place i of a permutation, which takes no memory. So batches are read from
any place on.
"""

import hashlib

import numpy as np
import tensorflow as tf

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.layouts import Layout
from keras_nplm.data.pools import open_pools
from keras_nplm.data.resampling import TextIds
from keras_nplm.io.errors import InputError

_CHUNK = 1 << 14  # targets gathered at a time, so that operations are cheap for each of them
# tf.random.experimental.index_shuffle has 4 rounds, after which neighbours still correlate (0.24)
_ROUNDS = 10
_MULTIPLIER = 0x9E37  # 2**16 / golden ratio


def make_key(seed: int, epoch: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor:
    """Return the key of a permutation, int32 [3].

    The cipher uses 8 bits or more of each number of a key. The others are mixed in.
    """
    seed = fold_seed(seed)
    digest = hashlib.sha256(str(seed >> 8).encode()).digest()[:12] if seed >> 8 else bytes(12)
    numbers = tf.stack([seed & 0xFF, epoch, number + epoch // 256 * _MULTIPLIER])
    mask = tf.constant(np.frombuffer(digest, np.int32))
    return tf.bitwise.bitwise_xor(tf.cast(numbers, tf.int32), mask)


def permute(place: tf.Tensor, size: tf.Tensor | int, key: tf.Tensor) -> tf.Tensor:
    """Return where places of a permutation of 0 to `size` - 1 lead, int32."""
    return tf.raw_ops.RandomIndexShuffle(index=place, seed=key, max_index=size - 1, rounds=_ROUNDS)


class EpochOrder:
    """The batches of each epoch of a text, for one worker: pool after pool, each permuted."""

    def __init__(
        self,
        ids: TextIds,
        layout: Layout,
        batch_size: int,
        epochs: Epochs,
        fold_starts: np.ndarray | None = None,
    ):
        self._layout = layout
        self._epochs = epochs
        _, workers = epochs.part
        size = batch_size // layout.targets  # places in a batch
        self._local_size = size // workers
        self._chunk = max(1, _CHUNK * workers // batch_size) * self._local_size
        self._pools = open_pools(ids, layout, epochs, self._local_size, fold_starts)
        places = self._pools.places
        self._batches = places // size if epochs.drop_remainder else -(-places // size)
        if epochs.most_batches is not None:
            self._batches = min(self._batches, epochs.most_batches)
        if not self._batches:
            problem = f"{places} n-grams do not fill a batch of {size}."
            raise InputError(f"{problem} Fix: use a smaller batch, or more text.")
        first = epochs.first_batch
        if not 0 <= first < self._batches or (first and epochs.first_epoch is None):
            wanted = f"0 to {self._batches - 1}, with `first_epoch`"
            raise InputError(f"`first_batch` must be {wanted}. Received: {first}.")

    def open(self) -> tf.data.Dataset:
        """Return the batches of one epoch, a new one each time; or endless epochs from
        `first_epoch` on.
        """
        # AutoGraph would take longer to rewrite the source than a short epoch takes
        read_epoch = tf.autograph.experimental.do_not_convert(self._read_epoch)
        first_epoch = self._epochs.first_epoch
        if first_epoch is not None:
            epochs = tf.data.Dataset.counter(first_epoch, 1)
            return epochs.flat_map(read_epoch).with_options(_build_options())
        # a counter, so that no random state is shared
        counter = tf.Variable(-1, dtype=tf.int64, trainable=False)
        epochs = tf.data.Dataset.range(1).map(lambda _: counter.assign_add(1))
        dataset = epochs.flat_map(read_epoch).with_options(_build_options())
        number = min(self._batches, -(-int(self._pools.own.sum()) // self._local_size))
        return dataset.apply(tf.data.experimental.assert_cardinality(number))

    def _read_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """Return the batches of an epoch."""
        pools = self._pools
        is_first = epoch == (self._epochs.first_epoch or 0)
        skipped = self._epochs.first_batch * self._local_size
        first_pool = int(np.searchsorted(np.cumsum(pools.own), skipped, side="right"))
        first_place = skipped - int(pools.own[:first_pool].sum())
        shift = self._draw_shift(epoch)

        def load(pool: tf.Tensor) -> tuple:
            return pool, pools.load(epoch, pool)

        def read_pool(pool: tf.Tensor, loaded: tuple[tf.Tensor, ...]) -> tf.data.Dataset:
            arrays = pools.held or loaded
            key = make_key(self._epochs.seed, epoch, pools.first + pool)
            size = tf.gather(tf.constant(pools.sizes, tf.int32), pool)
            stop = tf.gather(tf.constant(pools.own, tf.int32), pool)

            def gather(start: tf.Tensor) -> tuple:
                place = pools.find_own(tf.range(start, tf.minimum(start + self._chunk, stop)))
                if self._epochs.shuffle:
                    place = permute(place, size, key)
                return self._gather(arrays, place, shift)

            first = tf.where(is_first & (pool == first_pool), first_place, 0)
            starts = tf.data.Dataset.range(
                tf.cast(first, tf.int64), tf.cast(stop, tf.int64), self._chunk, output_type=tf.int32
            )
            return starts.map(gather)

        first = tf.where(is_first, tf.constant(first_pool, tf.int64), 0)
        numbers = tf.data.Dataset.range(first, len(pools.own))
        chunks = numbers.map(load).prefetch(1).flat_map(read_pool).prefetch(2)
        batches = chunks.rebatch(self._local_size, drop_remainder=self._epochs.drop_remainder)
        # the range of this worker may have an n-gram more than that of another
        before = tf.where(is_first, tf.constant(self._epochs.first_batch, tf.int64), 0)
        return batches.take(self._batches - before)

    def _draw_shift(self, epoch: tf.Tensor) -> tf.Tensor | int:
        """Draw how far back the segments of an epoch begin, different in T epochs."""
        shifts = self._layout.most_shift + 1
        if shifts == 1:
            return 0
        key = make_key(self._epochs.seed, epoch // shifts, -1)
        return permute(tf.cast(epoch % shifts, tf.int32), shifts, key)

    def _gather(
        self, arrays: tuple[tf.Tensor, ...], place: tf.Tensor, shift: tf.Tensor | int
    ) -> tuple:
        """Return inputs and targets at places of a pool that are shifted back by some ids."""
        tokens, positions, *folds = arrays
        position = tf.gather(positions, place) if positions.shape.rank else positions + place
        inputs, targets = self._layout.gather(tokens, position - shift)
        return ((inputs, *(tf.gather(fold, place) for fold in folds)) if folds else inputs), targets


def _build_options() -> tf.data.Options:
    options = tf.data.Options()
    # no parallel call needs tuning, and `fit` would wait up to a minute for the tuning thread when
    # an iterator ends
    options.autotune.enabled = False
    # a checkpoint of an iterator has the number of its epoch, and needs neither the counter nor a
    # reader of shards
    ignore = tf.data.experimental.ExternalStatePolicy.IGNORE
    options.experimental_external_state_policy = ignore
    return options
