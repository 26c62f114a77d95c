"""Epochs of batches: which batches are read, in which order, and by which worker."""

import dataclasses

from keras_nplm.io.errors import InputError, check_integer


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


class EpochSize:
    """How the places of an epoch, n-grams or segments, fill batches.

    Attributes:
        batches: number of batches in an epoch of all workers.
        batch_size: number of places of this worker in a batch.
        used: number of places of all workers in the batches of an epoch.
        skipped: number of places of this worker before the first batch of the first epoch.
    """

    def __init__(self, places: int, batch_size: int, epochs: Epochs):
        self.batches = places // batch_size
        if not epochs.drop_remainder:
            self.batches = -(-places // batch_size)
        if epochs.most_batches is not None:
            self.batches = min(self.batches, epochs.most_batches)
        if not self.batches:
            problem = f"{places} n-grams do not fill a batch of {batch_size}."
            raise InputError(f"{problem} Fix: use a smaller batch, or more text.")
        first = epochs.first_batch
        if not 0 <= first < self.batches or (first and epochs.first_epoch is None):
            wanted = f"0 to {self.batches - 1}, with `first_epoch`"
            raise InputError(f"`first_batch` must be {wanted}. Received: {first}.")
        _, workers = epochs.part
        self.batch_size = batch_size // workers
        self.used = min(places, self.batches * batch_size)
        self.skipped = first * self.batch_size
