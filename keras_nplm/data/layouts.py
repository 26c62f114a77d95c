"""Layouts of n-grams in a batch: `Windows`, a context for each target, or `Segments`.

A layout arranges the ids of a text, in NumPy, so that each of its places is a contiguous slice. It
gathers the places of a batch, in TensorFlow.
"""

import abc
import dataclasses

import numpy as np
import tensorflow as tf

from keras_nplm.data.boundary import find_targets, padding_id, predicts_end
from keras_nplm.data.ids import EOS_ID, PAD_ID
from keras_nplm.data.ngram_arrays import arrange_ngrams


@dataclasses.dataclass(frozen=True)
class Layout(abc.ABC):
    """The unit of the places of a text: an n-gram or a segment.

    Attributes:
        targets: number of targets of a place.
        most_shift: how many ids the places of an epoch begin earlier, at most.
    """

    order: int
    boundary: str
    targets_below: int | None = None
    targets: int = 1
    most_shift: int = 0

    @abc.abstractmethod
    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        """Return for each id whether it has a place, or one within a segment, bool [T]."""

    @abc.abstractmethod
    def count_places(self, counted: np.ndarray) -> np.ndarray:
        """Return how many places a block has of so many ids that `find_counted` finds."""

    @abc.abstractmethod
    def arrange(self, ids: np.ndarray, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Arrange the ids of a block after the n-1 words before it.

        Return tokens, int32, and increasing positions, int32: the first target of each place.
        """

    @abc.abstractmethod
    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        """Return inputs and targets at positions of the tokens."""


class Windows(Layout):
    """N-grams: context_ids int32 [B, n-1], oldest first, and target_ids int32 [B].

    Targets that are `targets_below` or higher have no place.
    """

    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        is_target = find_targets(ids, self.boundary)
        if self.targets_below is not None:
            is_target &= ids < self.targets_below
        return is_target

    def count_places(self, counted: np.ndarray) -> np.ndarray:
        return counted

    def arrange(self, ids: np.ndarray, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokens, positions = arrange_ngrams(ids, self.order, self.boundary, context)
        if self.targets_below is not None:
            positions = positions[tokens[positions] < self.targets_below]
        return tokens, positions

    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        context_ids = tf.gather(tokens, position[:, None] + tf.range(1 - self.order, 0))
        return context_ids, tf.gather(tokens, position)


class Segments(Layout):
    """T consecutive targets with the n-1 words before the first.

    Inputs are {"segments": int32 [B/T, n-1+T-1]}, targets int32 [B/T, T]. A target that does not
    count, such as one that is `targets_below` or higher, is `<pad>`.

    The text is one running text, also with boundary `"sentence"`, where `</s>` stays in it and ends
    the context, as `<s>` does with `"text"`. Its tokens stand after n+T-2 tokens `<s>` or `<pad>`
    with the context at their end, and before 2T-2 `<pad>`. What is no target is stored as -1 - id.
    Shifted back by less than T, the segments have each target once.
    """

    def find_counted(self, ids: np.ndarray) -> np.ndarray:
        # `<s>` has a place within a segment, although it is no target
        return (ids != EOS_ID) | predicts_end(self.boundary)

    def count_places(self, counted: np.ndarray) -> np.ndarray:
        return (counted > 0) * ((counted + self.most_shift + self.targets - 1) // self.targets)

    def arrange(self, ids: np.ndarray, context: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        words = ids[self.find_counted(ids)]
        first = self.order + self.targets - 2
        tokens = np.full(first + len(words) + 2 * self.targets - 2, ~PAD_ID, np.int32)
        tokens[:first] = ~padding_id(self.boundary)
        tokens[first - len(context) : first] = ~context
        tokens[first : first + len(words)] = np.where(
            find_targets(words, self.boundary), words, ~words
        )
        number = int(self.count_places(np.array(len(words))))
        return tokens, first + self.targets * np.arange(number, dtype=np.int32)

    def gather(self, tokens: tf.Tensor, position: tf.Tensor) -> tuple:
        around = tf.range(1 - self.order, self.targets)
        words = tf.gather(tokens, position[:, None] + around)  # [B/T, n-1+T]
        targets = tf.maximum(words[:, self.order - 1 :], PAD_ID)
        if self.targets_below is not None:
            targets = tf.where(targets < self.targets_below, targets, PAD_ID)
        ids = words[:, :-1]
        # what is no target is stored as -1 - id
        return {"segments": tf.maximum(ids, -1 - ids)}, targets
