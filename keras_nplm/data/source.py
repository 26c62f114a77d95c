"""NgramSource: a text as n-grams, which is opened as batches of windows or of segments."""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import check_boundary
from keras_nplm.data.epochs import Epochs
from keras_nplm.data.ids import convert_ids
from keras_nplm.data.layouts import Layout, Segments, Windows
from keras_nplm.data.log_q import LogQ, LogQLookup
from keras_nplm.data.resampling import Resampled, TextIds
from keras_nplm.data.shards import ShardedIds
from keras_nplm.data.shuffling import EpochOrder
from keras_nplm.io.errors import check_argument, check_integer

_SHUFFLED = Epochs()


@dataclasses.dataclass(frozen=True, eq=False)
class NgramSource:
    """The n-grams of a text: what is read. Its methods open it as batches.

    Attributes:
        ids: int32 [T], each sentence closed by `</s>`; or `EncodedCorpus.shards`; or several of
            these with shares, as `Resampled`.
        order: n, 2 or more.
        boundary: `"sentence"`, or `"text"` or `"stream"` (n-grams cross sentence ends); see
            `ngram_positions`.
        targets_below: target ids that are this or higher are not predicted (words outside a
            short-list). Default: no limit.
        fold_starts: int [K-1], increasing: where in the ids, of all texts joined, each fold but the
            first begins; see `Jackknife`. Inputs are then (context_ids, the fold of each n-gram,
            int32 [B]), as windows.

    Example:

    >>> source = NgramSource(np.array([7, 8, 9, 3], np.int32), order=3)
    >>> in_order = Epochs(shuffle=False)
    >>> [targets.tolist() for _, targets in source.windows(2, in_order).as_numpy_iterator()]
    [[7, 8], [9, 3]]
    >>> for inputs, targets in source.segments(4, 4, in_order).as_numpy_iterator():
    ...     print(inputs["segments"].tolist(), targets.tolist())
    [[2, 2, 7, 8, 9]] [[7, 8, 9, 3]]
    """

    ids: TextIds
    order: int
    boundary: str = "sentence"
    targets_below: int | None = None
    fold_starts: np.ndarray | None = None

    def __post_init__(self) -> None:
        check_boundary(self.order, self.boundary, least_order=2)
        if not isinstance(self.ids, ShardedIds | Resampled):
            object.__setattr__(self, "ids", convert_ids(self.ids))

    def windows(self, batch_size: int, epochs: Epochs = _SHUFFLED) -> tf.data.Dataset:
        """Open batches of B n-grams: (context_ids int32 [B, n-1], target_ids int32 [B])."""
        layout = Windows(self.order, self.boundary, self.targets_below)
        return self._open(layout, batch_size, epochs)

    def segments(
        self,
        segment: int,
        batch_size: int,
        epochs: Epochs = _SHUFFLED,
    ) -> tf.data.Dataset:
        """Open batches of B/T segments, each of T consecutive targets.

        ({"segments": int32 [B/T, n-1+T-1]}, target_ids int32 [B/T, T]), with `<pad>` where a place
        has no target.
        """
        check_integer("segment", segment, 1)
        most_shift = segment - 1 if epochs.shuffle else 0
        layout = Segments(self.order, self.boundary, self.targets_below, segment, most_shift)
        return self._open(layout, batch_size, epochs)

    def with_log_q(
        self,
        model: LogQ,
        batch_size: int,
        epochs: Epochs = _SHUFFLED,
    ) -> tf.data.Dataset:
        """Open batches of B n-grams with ln Q of an n-gram model, for a `HybridNetwork`.

        ({"contexts": int32 [B, n-1], "log_q": float32 [B, |V|]}, target_ids int32 [B]). A source
        with `fold_starts` gives the fold of each n-gram to the model, as a `Jackknife` needs it.
        """
        lookup = LogQLookup(model, self.order)
        windows = dataclasses.replace(self, order=lookup.order).windows(batch_size, epochs)
        _, workers = epochs.part
        return lookup.add_to(windows, batch_size // workers if epochs.drop_remainder else None)

    def _open(self, layout: Layout, batch_size: int, epochs: Epochs) -> tf.data.Dataset:
        check_integer("batch_size", batch_size, 1)
        _, workers = epochs.part
        parts = workers * layout.targets
        accepted = f"a multiple of {parts}, the number of parts times `segment`"
        check_argument("batch_size", batch_size % parts == 0, accepted, batch_size)
        is_shuffled = epochs.shuffle or not isinstance(self.ids, Resampled)
        check_argument("shuffle", is_shuffled, "True for Resampled texts", False)
        return EpochOrder(self.ids, layout, batch_size, epochs, self.fold_starts).open()
