"""PointerNetwork: a network that can repeat the words of its context."""

from typing import Any

import keras

from keras_nplm.layers.ops import Tensor
from keras_nplm.layers.pointer import CopyScores, Pointer
from keras_nplm.layers.segments import Context
from keras_nplm.models.networks.context_network import ContextNetwork


@keras.saving.register_keras_serializable("keras_nplm")
class PointerNetwork(ContextNetwork):
    """Network with a pointer: the words of the context are outputs, too.

        P(w | context) = ( exp(y_w) + sum_{i: w_i = w} a_i ) / ( sum_j exp(y_j) + sum_i a_i )

    It suits contexts of dozens of words, in segments. A pointer adds m (1 + 2 h) + n + 2
    parameters, with h the width of the features, for n of 7 and more.

    Args:
        pointer: `Pointer(…)`, which weighs the words. Default: one with the weight decay 0.
        others: see `ContextNetwork`. The head must have a row for each word.

    Example:

    >>> import numpy as np
    >>> from keras_nplm import AveragedContext, Likelihood, LinearHead, TanhHidden
    >>> network = PointerNetwork(
    ...     order=9,
    ...     embed=AveragedContext(50, 6, averages_after=(3,), name="embed"),
    ...     hidden=TanhHidden(8, name="hidden"),
    ...     head=LinearHead(50, name="prob"),
    ...     objective=Likelihood(),
    ... )
    >>> network({"segments": np.arange(4, 14)[None]}).shape  # 3 targets, 8 words before the first
    TensorShape([1, 3, 50])

    Reference: see `keras_nplm.layers.pointer.Pointer`.
    """

    def __init__(self, *args: Any, pointer: Pointer | None = None, **kwargs: Any):
        # `build` needs it. As an attribute Keras would list it before the other layers
        self._get_given_pointer = lambda: pointer
        super().__init__(*args, **kwargs)

    def build_parts(self, features_shape: tuple) -> None:
        self.prob.check_word_rows("with a pointer")
        given = self._get_given_pointer()
        self.pointer = given or Pointer(name="pointer", dtype=self.prob.dtype_policy)
        if not self.pointer.built:
            self.pointer.build(features_shape, (None, self.order - 1, self.embedding_dim))
            self.pointer.built = True

    def score(self, context: Context, features: Tensor, training: bool = False) -> CopyScores:
        scores = super().score(context, features, training)
        return self.pointer.add_copies(scores, features, context, self.prob)

    def list_parts(self) -> dict[str, keras.layers.Layer | None]:
        return {**super().list_parts(), "pointer": self.pointer}
