"""From the Keras layers of a network to arrays: their present weights, and what they compute."""

import dataclasses
from typing import Any

import numpy as np

from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import DirectConnection, NoHidden, TanhHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.networks.arrays import NetworkArrays, refuse_network


def convert_layers(
    order: int,
    boundary: str,
    embed: ContextEmbedding,
    hidden: Any,
    direct: DirectConnection | None,
    head: Head,
) -> NetworkArrays:
    """Return the weights of the layers of a network in NumPy.

    Raises:
        InputError: the head has no logits of all words, or a layer has no form in NumPy.
    """
    size = embed.vocabulary_size
    _check_layers(size, hidden, head)
    block, scale = embed.position_spans(order - 1)
    C = _float32(embed.C)
    C[0] = 0  # <pad> adds a zero vector
    arrays = NetworkArrays(order, size, boundary, block, scale, C, b=_float32(head.b))
    if isinstance(head, EnergyHead):
        return dataclasses.replace(
            arrays, H=_float32(head.H), d=_float32(head.d), v=_float32(head.v)
        )
    if isinstance(hidden, TanhHidden):
        arrays = dataclasses.replace(
            arrays,
            H=_float32(hidden.H),
            d=_float32(hidden.d),
            transform=hidden.to_array_function(),
        )
    return dataclasses.replace(
        arrays,
        U=_float32(head.full_kernel()),
        U_sees_x=hidden is None,
        W=None if direct is None else _float32(direct.W),
    )


def _check_layers(size: int, hidden: Any, head: Head) -> None:
    if head.num_outputs < size:
        raise refuse_network(f"a head of {head.num_outputs} of {size} words")
    if isinstance(head, EnergyHead):
        return
    if not head.has_word_rows:
        raise refuse_network(type(head).__name__)
    has_arrays = hidden is None or isinstance(hidden, NoHidden | TanhHidden)
    if not has_arrays:
        raise refuse_network(type(hidden).__name__)


def _float32(weight: Tensor) -> np.ndarray:
    return np.array(weight, np.float32)
