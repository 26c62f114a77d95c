"""The base class of count-based n-gram models: their file and their figures."""

import abc
import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_nplm.io.files import write_archive, write_arrays
from keras_nplm.models.base import ModelFolder, NextWordModel

NGRAMS_FILE = "ngrams.npz"


class NgramModel(NextWordModel, abc.ABC):
    """Base class of count-based n-gram models, which have one file of arrays.

    A subclass has `num_ngrams`, `arrays`, `load`, a `description`, the decorator `saved_as`, and
    what `NextWordModel` asks of it. `cli.printing` has its title, and `serving.ngram_graphs` its
    graph.
    """

    @property
    @abc.abstractmethod
    def num_ngrams(self) -> list[int]:
        """The number of n-grams of each order."""

    @abc.abstractmethod
    def arrays(self) -> dict[str, np.ndarray | list[np.ndarray]]:
        """Return the arrays that `load` reads, by name."""

    @classmethod
    @abc.abstractmethod
    def load(cls, path: str | os.PathLike, boundary: str | None = None) -> Self:
        """Read the arrays that `save` wrote."""

    def save(self, path: str | os.PathLike) -> None:
        """Write the arrays to `path` (.npz)."""
        write_arrays(path, self.arrays())

    def list_files(self) -> Mapping[str, Callable[[Path], object]]:
        return {NGRAMS_FILE: functools.partial(write_archive, arrays=self.arrays())}

    @classmethod
    def read_files(cls, folder: ModelFolder) -> Self:
        return cls.load(folder.path / NGRAMS_FILE, folder.boundary)

    def compute_figures(self) -> dict[str, Any]:
        return {"ngrams": self.num_ngrams}
