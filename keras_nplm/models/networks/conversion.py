"""From a Keras network to arrays: its present weights, and its layers in NumPy."""

from typing import TYPE_CHECKING

import numpy as np

from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import NoHidden, TanhHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.networks.arrays import NetworkArrays, refuse_network

if TYPE_CHECKING:
    from keras_nplm.models.networks.context_network import ContextNetwork


def convert_network(model: "ContextNetwork") -> NetworkArrays:
    """Return the weights of a network in NumPy.

    Raises:
        InputError: the head has no logits of all words, or a layer has no form in NumPy.
    """
    _check_network(model)
    block, scale = model.embed.position_spans(model.order - 1)
    C = _float32(model.embed.C)
    C[0] = 0  # <pad> adds a zero vector
    b = _float32(model.prob.b)
    if isinstance(model.prob, EnergyHead):
        return NetworkArrays(
            order=model.order,
            vocabulary_size=model.vocabulary_size,
            boundary=model.boundary,
            block=block,
            scale=scale,
            C=C,
            b=b,
            H=_float32(model.prob.H),
            d=_float32(model.prob.d),
            v=_float32(model.prob.v),
        )
    hidden = model.hidden
    H = d = transform = None
    if isinstance(hidden, TanhHidden):
        H = _float32(hidden.H)
        d = _float32(hidden.d)
        transform = hidden.to_array_function()
    pointer = getattr(model, "pointer", None)
    return NetworkArrays(
        order=model.order,
        vocabulary_size=model.vocabulary_size,
        boundary=model.boundary,
        block=block,
        scale=scale,
        C=C,
        b=b,
        H=H,
        d=d,
        transform=transform,
        U=_float32(model.prob.full_kernel()),
        U_sees_x=hidden is None,
        W=None if model.direct is None else _float32(model.direct.W),
        weigh_copies=None if pointer is None else pointer.to_array_function(C),
    )


def _check_network(model: "ContextNetwork") -> None:
    if model.reads_log_q:
        raise refuse_network(type(model).__name__)
    if model.prob.num_outputs < model.vocabulary_size:
        raise refuse_network(f"a head of {model.prob.num_outputs} of {model.vocabulary_size} words")
    if isinstance(model.prob, EnergyHead):
        return
    if not model.prob.has_word_rows:
        raise refuse_network(type(model.prob).__name__)
    hidden = model.hidden
    has_arrays = hidden is None or isinstance(hidden, NoHidden | TanhHidden)
    if not has_arrays:
        raise refuse_network(type(hidden).__name__)


def _float32(weight: Tensor) -> np.ndarray:
    return np.array(weight, np.float32)
