"""Order of the n-grams in an epoch, of a text in memory (`MemoryOrder`) or in pools (`PoolOrder`).

Both permute by a small cipher of i that gives place i, which takes no memory. Both number the
n-grams, or segments, of a text by places from 0, and read batches from any place on.
"""

import abc
import hashlib
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from keras_nplm.data.arguments import fold_seed
from keras_nplm.data.epochs import Epochs, EpochSize
from keras_nplm.data.layouts import ArrangedText, Layout
from keras_nplm.data.pools import Pools
from keras_nplm.data.resampling import Resampled
from keras_nplm.data.shards import ShardedIds

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


def draw_shift(length: int, seed: int, epoch: tf.Tensor) -> tf.Tensor:
    """Draw how far back the segments of an epoch begin, 0 to T-1, different in T epochs."""
    key = make_key(seed, epoch // length, -1)
    return permute(tf.cast(epoch % length, tf.int32), length, key)


class EpochOrder(abc.ABC):
    """The batches of each epoch of a text, for one worker.

    Attributes:
        epochs: which batches are read.
        size: how many there are.
    """

    def __init__(self, layout: Layout, places: int, batch_size: int, epochs: Epochs):
        self.layout = layout
        self.epochs = epochs
        self.size = EpochSize(places, batch_size // layout.targets, epochs)
        local_targets = self.size.batch_size * layout.targets
        self._chunk = max(1, _CHUNK // local_targets) * self.size.batch_size

    @property
    @abc.abstractmethod
    def local_batches(self) -> int:
        """Number of batches of this worker in an epoch, or `tf.data.UNKNOWN_CARDINALITY`."""

    @abc.abstractmethod
    def read_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        """Return the batches of an epoch."""

    def _is_resumed(self, epoch: tf.Tensor) -> tf.Tensor:
        """Return whether the first batches of an epoch are skipped."""
        if not self.size.skipped:
            return tf.constant(False)
        return epoch == self.epochs.first_epoch

    def _draw_shift(self, epoch: tf.Tensor) -> tf.Tensor | None:
        """Draw how far back the segments of an epoch begin; None: no shift."""
        if not self.epochs.shuffle or self.layout.targets == 1:
            return None
        return draw_shift(self.layout.targets, self.epochs.seed, epoch)

    def _make_key(self, epoch: tf.Tensor, number: tf.Tensor | int) -> tf.Tensor | None:
        """Return the key of permutation `number` of an epoch; None: the order of the text."""
        return make_key(self.epochs.seed, epoch, number) if self.epochs.shuffle else None

    def _gather_chunks(
        self,
        gather: Callable[[tf.Tensor], tuple],
        first: tf.Tensor | int,
        stop: tf.Tensor | int,
    ) -> tf.data.Dataset:
        """Gather places `first` to `stop`, many at a time."""

        def gather_chunk(start: tf.Tensor) -> tuple:
            return gather(tf.range(start, tf.minimum(start + self._chunk, stop)))

        first = tf.cast(first, tf.int64)
        stop_64 = tf.cast(stop, tf.int64)
        starts = tf.data.Dataset.range(first, stop_64, self._chunk, output_type=tf.int32)
        return starts.map(gather_chunk)

    def _cut_batches(self, chunks: tf.data.Dataset) -> tf.data.Dataset:
        drops = self.epochs.drop_remainder
        return chunks.prefetch(2).rebatch(self.size.batch_size, drop_remainder=drops)


class MemoryOrder(EpochOrder):
    """A text in memory: one permutation of its n-grams. Worker w has the w-th N-th of a batch."""

    def __init__(
        self,
        ids: np.ndarray,
        layout: Layout,
        batch_size: int,
        epochs: Epochs,
        fold_starts: np.ndarray | None = None,
    ):
        tokens, positions = layout.arrange(ids)
        if not epochs.shuffle:
            positions = layout.drop_unneeded(tokens, positions)
        self._places = len(positions)
        super().__init__(layout, self._places, batch_size, epochs)
        self._text = ArrangedText.in_memory(layout, tokens, positions, fold_starts)
        self._local_places = self._count_local_places()

    def _count_local_places(self) -> int:
        """Count the places of this worker in the batches of an epoch."""
        worker, workers = self.epochs.part
        whole, rest = divmod(self.size.used, self.size.batch_size * workers)
        before = worker * self.size.batch_size  # in the last, smaller batch
        last = min(max(rest - before, 0), self.size.batch_size)
        return whole * self.size.batch_size + last

    @property
    def local_batches(self) -> int:
        return -(-self._local_places // self.size.batch_size)

    def read_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        key = self._make_key(epoch, 0)
        shift = self._draw_shift(epoch)

        def gather(index: tf.Tensor) -> tuple:
            place = self._find_places(index)
            if key is not None:
                place = permute(place, self._places, key)
            return self._text.gather(place, shift)

        first = tf.where(self._is_resumed(epoch), self.size.skipped, 0)
        return self._cut_batches(self._gather_chunks(gather, first, self._local_places))

    def _find_places(self, index: tf.Tensor) -> tf.Tensor:
        """Return the places of all workers at which this worker has its places."""
        worker, workers = self.epochs.part
        if workers == 1:
            return index
        size = self.size.batch_size
        return index + (index // size * (workers - 1) + worker) * size


class PoolOrder(EpochOrder):
    """Shards or resampled texts: pool after pool, each permuted on its own; see `Pools`.

    The next pool is read in advance. Each worker reads its own part of each text.
    """

    def __init__(
        self,
        ids: ShardedIds | Resampled,
        layout: Layout,
        batch_size: int,
        epochs: Epochs,
        fold_starts: np.ndarray | None = None,
    ):
        self._pools = Pools(ids, layout, epochs.shuffle, epochs.seed, epochs.part)
        self._fold_starts = fold_starts
        super().__init__(layout, self._pools.number, batch_size, epochs)

    @property
    def local_batches(self) -> int:
        _, workers = self.epochs.part
        if workers > 1 and not self.epochs.drop_remainder:
            return tf.data.UNKNOWN_CARDINALITY  # it depends on the worker
        return self.size.batches

    def read_epoch(self, epoch: tf.Tensor) -> tf.data.Dataset:
        is_resumed = self._is_resumed(epoch)
        first_pool, first_place = self._pools.place(self.size.skipped)
        shift = self._draw_shift(epoch)

        def load(pool: tf.Tensor) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
            return pool, self._load(epoch, pool)

        def read_pool(pool: tf.Tensor, arrays: dict[str, tf.Tensor]) -> tf.data.Dataset:
            key = self._make_key(epoch, 1 + pool)
            text = ArrangedText(self.layout, fold_starts=self._fold_starts, **arrays)
            size = tf.size(text.positions)

            def gather(index: tf.Tensor) -> tuple:
                place = index if key is None else permute(index, size, key)
                return text.gather(place, shift)

            first = tf.where(is_resumed & (pool == first_pool), first_place, 0)
            return self._gather_chunks(gather, first, size)

        first = tf.where(is_resumed, tf.constant(first_pool, tf.int64), 0)
        numbers = tf.data.Dataset.range(first, self._pools.count)
        batches = self._cut_batches(numbers.map(load).prefetch(1).flat_map(read_pool))
        if not self.epochs.drop_remainder and self.epochs.most_batches is None:
            return batches
        # the range of this worker may have an n-gram more than that of another
        skipped = tf.where(is_resumed, tf.constant(self.epochs.first_batch, tf.int64), 0)
        return batches.take(self.size.batches - skipped)

    def _load(self, epoch: tf.Tensor, pool: tf.Tensor) -> dict[str, tf.Tensor]:
        """Load the arrays of a pool, which `ArrangedText` takes."""
        kinds = (tf.int32, tf.int32)
        tokens, positions = tf.numpy_function(self._pools.load, [epoch, pool], kinds)
        arrays = {"tokens": tokens, "positions": positions}
        if self._fold_starts is not None:
            numbers = tf.numpy_function(self._pools.number_ngrams, [epoch, pool], tf.int32)
            arrays["numbers"] = numbers
        return {name: tf.ensure_shape(array, [None]) for name, array in arrays.items()}


def open_epochs(order: EpochOrder) -> tf.data.Dataset:
    """Return the batches of one epoch, a new one each time; or endlessly from `first_epoch` on."""
    # AutoGraph would take longer to rewrite the source than a short epoch takes
    read_epoch = tf.autograph.experimental.do_not_convert(order.read_epoch)
    first_epoch = order.epochs.first_epoch
    if first_epoch is not None:
        epochs = tf.data.Dataset.counter(first_epoch, 1)
        return epochs.flat_map(read_epoch).with_options(_build_options())
    # a counter, so that no random state is shared
    counter = tf.Variable(-1, dtype=tf.int64, trainable=False)
    epochs = tf.data.Dataset.range(1).map(lambda _: counter.assign_add(1))
    dataset = epochs.flat_map(read_epoch).with_options(_build_options())
    if order.local_batches < 0:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(order.local_batches))


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
