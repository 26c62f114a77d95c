"""Layouts of n-grams in a batch: `Windows`, a context for each target, or `Segments`.

A layout arranges the ids of a text, in NumPy, so that each of its places is a contiguous slice. It
gathers the places of a batch, in TensorFlow.
"""

import abc
import dataclasses

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import find_targets, has_documents, predicts_end
from keras_nplm.data.ids import EOS_ID, PAD_ID
from keras_nplm.data.ngram_arrays import ngram_positions
from keras_nplm.data.segments import count_segments, segment_positions


@dataclasses.dataclass(frozen=True)
class Layout(abc.ABC):
    """The unit of the places of a text: an n-gram or a segment."""

    order: int
    boundary: str
    targets_below: int | None

    @property
    @abc.abstractmethod
    def targets(self) -> int:
        """Number of targets of a place."""

    @abc.abstractmethod
    def arrange(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return tokens, int32, and increasing positions, int32: the first target of each place."""

    @abc.abstractmethod
    def drop_unneeded(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the positions of a whole text that epochs without a shift need."""

    @abc.abstractmethod
    def insert_context(self, tokens: np.ndarray, context: np.ndarray) -> None:
        """Write the n-1 words before a block into the tokens that `arrange` returned for it."""

    @property
    @abc.abstractmethod
    def counts_every_id(self) -> bool:
        """Whether `find_counted` is true of every id, so that the ids need not be read."""

    @abc.abstractmethod
    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it has a place, or one within a segment, bool [T]."""

    @abc.abstractmethod
    def count_places(self, counted: np.ndarray) -> np.ndarray:
        """Return how many places a block has of so many ids that `find_counted` finds."""

    @abc.abstractmethod
    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        """Return inputs and targets at positions of the tokens."""


@dataclasses.dataclass(frozen=True)
class Windows(Layout):
    """N-grams: context_ids int32 [B, n-1], oldest first, and target_ids int32 [B].

    Targets that are `targets_below` or higher have no place.
    """

    @property
    def targets(self) -> int:
        return 1

    def arrange(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return ngram_positions(ids, self.order, self.boundary, self.targets_below)

    def drop_unneeded(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return positions

    def insert_context(self, tokens: np.ndarray, context: np.ndarray) -> None:
        tokens[: self.order - 1] = context

    @property
    def counts_every_id(self) -> bool:
        skips_ids = has_documents(self.boundary) or not predicts_end(self.boundary)
        return self.targets_below is None and not skips_ids

    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        is_target = find_targets(ids, self.boundary)
        if self.targets_below is not None:
            is_target &= ids < self.targets_below
        return is_target

    def count_places(self, counted: np.ndarray) -> np.ndarray:
        return counted

    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        context_ids = tf.gather(tokens, position[:, None] + tf.range(1 - self.order, 0))
        return context_ids, tf.gather(tokens, position)


@dataclasses.dataclass(frozen=True)
class Segments(Layout):
    """T consecutive targets with the n-1 words before the first; see `segment_positions`.

    Inputs are {"segments": int32 [B/T, n-1+T-1]}, targets int32 [B/T, T]. A target that does not
    count, such as one that is `targets_below` or higher, is `<pad>`.
    """

    length: int

    @property
    def targets(self) -> int:
        return self.length

    def arrange(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return segment_positions(ids, self.order, self.boundary, self.length)

    def drop_unneeded(self, tokens: np.ndarray, positions: np.ndarray) -> np.ndarray:
        # the last segment may have targets only where segments begin earlier
        return positions[positions <= len(tokens) - (2 * self.length - 1)]

    def insert_context(self, tokens: np.ndarray, context: np.ndarray) -> None:
        first = self.order + self.length - 2
        tokens[first - len(context) : first] = ~context  # no targets

    @property
    def counts_every_id(self) -> bool:
        return predicts_end(self.boundary)

    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        # `<s>` has a place within a segment, although it is no target
        return np.ones(len(ids), bool) if self.counts_every_id else ids != EOS_ID

    def count_places(self, counted: np.ndarray) -> np.ndarray:
        return count_segments(counted, self.length)

    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        around = tf.range(1 - self.order, self.length)
        words = tf.gather(tokens, position[:, None] + around)  # [B/T, n-1+T]
        targets = tf.maximum(words[:, self.order - 1 :], PAD_ID)
        if self.targets_below is not None:
            targets = tf.where(targets < self.targets_below, targets, PAD_ID)
        ids = words[:, :-1]
        # what is no target is stored as -1 - id
        return {"segments": tf.maximum(ids, -1 - ids)}, targets


@dataclasses.dataclass(frozen=True)
class ArrangedText:
    """A text, or a part of one, as tensors, of which a layout gathers places.

    Attributes:
        layout: `Windows` or `Segments`.
        tokens: int32, as the layout arranges them.
        positions: int32, the position of each place; or the first of consecutive positions, which
            need no look-up.
        fold_starts: int32 [K-1], how many n-grams come before each part of the text but the first.
            With them the inputs are (inputs, the part of each n-gram).
        numbers: int32, the number of the n-gram at each place. Default: the place.
    """

    layout: Layout
    tokens: tf.Tensor
    positions: tf.Tensor | int
    fold_starts: np.ndarray | None = None
    numbers: tf.Tensor | None = None

    @classmethod
    def in_memory(
        cls,
        layout: Layout,
        tokens: np.ndarray,
        positions: np.ndarray,
        fold_starts: np.ndarray | None = None,
    ) -> "ArrangedText":
        """Return a whole text as tensors."""
        first = int(positions[0])
        is_range = int(positions[-1]) - first == len(positions) - 1  # as they increase
        found = first if is_range else tf.constant(positions)
        return cls(layout, tf.constant(tokens), found, fold_starts)

    def gather(self, place: tf.Tensor, shift: tf.Tensor | None) -> tuple:
        """Return inputs and targets at places that are shifted back by a number of ids."""
        position = self._find_positions(place)
        if shift is not None:
            position -= shift
        inputs, targets = self.layout.gather(self.tokens, position)
        if self.fold_starts is None:
            return inputs, targets
        number = place if self.numbers is None else tf.gather(self.numbers, place)
        folds = tf.searchsorted(tf.constant(self.fold_starts), number, side="right")
        return (inputs, folds), targets

    def _find_positions(self, place: tf.Tensor) -> tf.Tensor:
        if isinstance(self.positions, int):
            return place + self.positions
        return tf.gather(self.positions, place)
