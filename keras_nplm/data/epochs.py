"""Epochs of batches: which batches are read, in which order, and by which worker."""

import dataclasses

from keras_nplm.io.errors import check_integer


@dataclasses.dataclass(frozen=True, kw_only=True)
class Epochs:
    """Which batches of a text are read: their order, the first and the last, the part of a worker.

    Attributes:
        shuffle: permute the n-grams, in a new order each epoch. Otherwise they are in the order of
            the text.
        seed: seed of the permutations, any integer.
        drop_remainder: drop the last, smaller batch of an epoch, as tf.distribute needs.
        first_epoch: read endless epochs, numbered from this one, to resume training. Default: one
            epoch, and another one each time that the dataset is iterated.
        first_batch: number of batches to skip in the first epoch, at no cost. Needs `first_epoch`.
        most_batches: limit of the batches in an epoch. Default: no limit.
        part: (w, N): the part of worker w, from 0, of N workers.
    """

    shuffle: bool = True
    seed: int = 0
    drop_remainder: bool = False
    first_epoch: int | None = None
    first_batch: int = 0
    most_batches: int | None = None
    part: tuple[int, int] = (0, 1)

    def __post_init__(self) -> None:
        check_integer("first_batch", self.first_batch, 0)
        if self.first_epoch is not None:
            check_integer("first_epoch", self.first_epoch, 0)
        if self.most_batches is not None:
            check_integer("most_batches", self.most_batches, 1)
        worker, workers = self.part
        check_integer("part[0]", worker, 0, workers - 1)
