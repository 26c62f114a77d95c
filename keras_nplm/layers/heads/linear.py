"""Linear head: one row of U and one bias for each word; low rank, tied to C, or of the first
words.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_nplm.io.errors import InputError
from keras_nplm.layers.arrays import convert_to_float32
from keras_nplm.layers.heads.base import Head, safe_log
from keras_nplm.layers.ops import NewRows, Tensor, append_rows
from keras_nplm.layers.scores import LinearScores


@keras.saving.register_keras_serializable("keras_nplm")
class LinearHead(Head):
    """Linear head of the paper: the softmax of linear scores.

        y = b + U a,    or of low rank y = b + U P a
        P(w | context) = exp(y_w) / sum_i exp(y_i)

    U has one row per word, [outputs, h], so that a few words cost a few rows. Where the network has
    direct connections, `DirectConnection` adds W x.

    Args:
        vocabulary_size: int, |V|.
        weight_decay: float, the paper's weight decay on U and P. The bias b has none.
        rank: int r or None. Project the features to r numbers first, so that U P has rank r.
        tied: bool. Use C as U, on features projected to m numbers.
        num_outputs: int or None. Score the words with ids below it only, the most frequent ones.
            The others have probability 0: see `keras_nplm.Shortlist`. None: all |V| words.

    Call arguments:
        features: a, float [B, h].

    Returns:
        P(w | context), float [B, outputs].

    Example:

    >>> head = LinearHead(vocabulary_size=7)
    >>> head.build((None, 3))
    >>> [weight.name for weight in head.weights], tuple(head.U.shape)
    (['U', 'b'], (7, 3))

    Reference: Bengio, Ducharme, Vincent & Jauvin (2003), equation 1.
    """

    options = ("rank", "tied")
    has_word_rows = True

    def __init__(
        self,
        vocabulary_size: int,
        weight_decay: float = 0.0,
        rank: int | None = None,
        tied: bool = False,
        num_outputs: int | None = None,
        **kwargs: Any,
    ):
        if num_outputs is not None and not 5 <= num_outputs <= vocabulary_size:
            raise InputError(
                f"`num_outputs` must be 5 to {vocabulary_size}, or None. Received: {num_outputs}. "
                "Fix: count the 4 special tokens, or leave it out for all words."
            )
        if tied and (rank or num_outputs):
            raise InputError(
                "`rank` and `num_outputs` must be None if `tied`. Received: "
                f"{rank} and {num_outputs}. Fix: leave them out: U is C, of all words and rank m."
            )
        super().__init__(vocabulary_size, weight_decay, **kwargs)
        self.rank = rank
        self.tied = tied
        self.uses_embedding = tied
        # the head of all words grows with the vocabulary
        self._num_outputs = None if num_outputs == vocabulary_size else num_outputs
        self.U: Any = None
        self.P = None

    @property
    def num_outputs(self) -> int:
        return self._num_outputs or self.vocabulary_size

    def tie(self, embedding: keras.Variable) -> None:
        if self.tied:
            self.U = embedding

    def build(self, input_shape: tuple) -> None:
        width = input_shape[-1]
        if self.tied:
            self.P = self.add_matrix("P", (width, self.U.shape[1]))
        elif self.rank:
            self.P = self.add_matrix("P", (width, self.rank))
            self.U = self.add_matrix("U", (self.num_outputs, self.rank))
        elif width:
            self.U = self.add_matrix("U", (self.num_outputs, width))
        self.b = self.add_weight(name="b", shape=(self.num_outputs,), initializer="zeros")

    def scores(self, features: Tensor, training: bool = False) -> LinearScores:
        features = ops.cast(features, self.accumulator_dtype)
        if self.P is not None:
            features = ops.matmul(features, ops.cast(self.P, features.dtype))
        kernels = () if self.U is None else (self.U,)
        dtype = self.product_dtype if training else self.accumulator_dtype
        return LinearScores(features, kernels, self.b, dtype)

    def full_kernel(self) -> np.ndarray:
        """Return U, or U P of low rank, as an array [outputs, h]."""
        if self.U is None:
            return np.zeros((self.num_outputs, 0), self.accumulator_dtype)
        U = ops.convert_to_numpy(self.U)
        return U if self.P is None else U @ ops.convert_to_numpy(self.P).T

    def list_arrays(self) -> dict[str, Any] | None:
        if self._num_outputs is not None:
            return None
        return {"U": convert_to_float32(self.full_kernel()), "b": convert_to_float32(self.b)}

    def set_unigram(self, unigram: np.ndarray) -> None:
        self.b.assign(safe_log(unigram))

    def grow_from(self, smaller: "LinearHead", rows: NewRows) -> None:
        if self.P is not None:
            self.P.assign(smaller.P)
        if self.U is not None and not self.tied:
            self.U.assign(append_rows(smaller.U, rows.kernel[:, : self.U.shape[1]]))
        self.b.assign(append_rows(smaller.b, rows.b))

    def get_config(self) -> dict:
        config = super().get_config()
        config["num_outputs"] = self._num_outputs
        return config

    def list_own_variables(self) -> list[keras.Variable]:
        """Return the variables of this layer in a file: without C, which the context layer
        saves.
        """
        variables = super().list_own_variables()
        if not self.tied:
            return variables
        return [variable for variable in variables if variable is not self.U]
