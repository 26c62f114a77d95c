"""The base class of heads: from the features of a context to the scores of the words."""

import abc
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import ConfiguredLayer, Tensor, l2_regularizer
from keras_nplm.layers.scores import Scores

LEAST_PROBABILITY = 1e-12  # of an id that is never a target


class Head(ConfiguredLayer, abc.ABC):
    """Base class of heads. A head makes `Scores` from features; it does not know how it is trained.

    Calling a head gives P(w | context) of all words, float [B, outputs]. Weights, logits and sums
    have `accumulator_dtype`: half precision is too coarse for an output.

    A subclass implements `build` and `scores`; also `set_unigram`, by which a network of it starts
    from the unigram model.

    Args:
        vocabulary_size: int, |V|.
        weight_decay: float, the paper's weight decay on the matrices. Biases have none.
    """

    options: tuple[str, ...] = ("vocabulary_size", "weight_decay")
    words_option = "vocabulary_size"
    uses_embedding = False  # whether the head needs the matrix C of the context; see `tie`
    has_word_rows = False  # whether it has a row for each word: for W, a pointer, and new words
    is_normalised = False  # whether its logits are log-probabilities: log Z is 0
    # whether `logits` may loop over contexts, in less memory; runtimes of devices may have no loops
    uses_loops = True

    def __init__(self, vocabulary_size: int, weight_decay: float = 0.0, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.vocabulary_size = vocabulary_size
        self.weight_decay = weight_decay

    @property
    def num_outputs(self) -> int:
        """The number of words that are scored: those with ids below it."""
        return self.vocabulary_size

    @abc.abstractmethod
    def scores(self, features: Tensor, training: bool = False) -> Scores:
        """Return the scores of the words for features, float [B, w]."""

    def call(self, features: Tensor) -> Tensor:
        return ops.softmax(self.scores(features).logits())

    def set_unigram(self, unigram: np.ndarray) -> None:
        """Set the biases so that P(w | context) is `unigram`, float [outputs], whatever the
        context. Default: training starts without it.
        """

    def check_word_rows(self, purpose: str) -> None:
        """Refuse a head without a row for each word, which `purpose` needs."""
        if not self.has_word_rows:
            raise InputError(
                f"`head` must have a row for each word {purpose}. Received: "
                f"{type(self).__name__}. Fix: choose a LinearHead."
            )

    def check_all_words(self, purpose: str) -> None:
        """Refuse a head of a short-list, where `purpose` needs the scores of all words."""
        if self.num_outputs != self.vocabulary_size:
            raise InputError(
                f"`head` must score all {self.vocabulary_size} words {purpose}. "
                f"Received: {self.num_outputs}. Fix: leave `num_outputs` out."
            )

    def tie(self, embedding: keras.Variable) -> None:
        """Use the matrix C, [|V|, m], of the context layer. Called before `build`."""

    def check_untied(self) -> None:
        """Refuse a head that uses the word vectors of another network: it would lose them."""
        if self.built and self.uses_embedding:
            raise InputError(
                f"`head` must be a {type(self).__name__} of its own, since it uses the vectors of "
                "`embed`. Received: that of another network. Fix: give each network its own."
            )

    def get_build_config(self) -> dict | None:
        # Keras would build the layer when it is deserialised, before `tie`
        return None if self.uses_embedding else super().get_build_config()

    def add_weight(self, *args: Any, **kwargs: Any) -> keras.Variable:
        """Add a weight of `accumulator_dtype`, unless a dtype is given."""
        kwargs.setdefault("dtype", self.accumulator_dtype)
        kwargs.setdefault("autocast", False)
        return super().add_weight(*args, **kwargs)

    def add_matrix(self, name: str, shape: tuple[int, int]) -> keras.Variable:
        """Add a matrix with weight decay."""
        regularizer = l2_regularizer(self.weight_decay)
        return self.add_weight(
            name=name, shape=shape, initializer="glorot_uniform", regularizer=regularizer
        )

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (*input_shape[:-1], self.num_outputs)

    def compute_output_spec(self, features: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(self.compute_output_shape(features.shape), self.accumulator_dtype)


def safe_log(probability: np.ndarray) -> np.ndarray:
    """Return ln p, with ln 1e-12 for a word that is never predicted."""
    return np.log(np.maximum(probability, LEAST_PROBABILITY))
