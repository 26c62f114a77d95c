"""From the Keras layers of a network to arrays: their present weights, and what they compute."""

import contextlib
import dataclasses

import numpy as np

from keras_nplm.io.errors import InputError
from keras_nplm.layers.heads.energy import EnergyHead
from keras_nplm.layers.hidden import Hidden, NoHidden
from keras_nplm.layers.ops import Tensor
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.networks.arrays import NetworkArrays, refuse_network
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.pointer_network import PointerNetwork


def find_saved_arrays(model: ContextNetwork) -> NetworkArrays | None:
    """Return the arrays that are saved beside a network, whose probabilities are those of Keras.

    None: a layer is not of this package or has no form in NumPy, or the network is not of float32.
    """
    used = [model, *(layer for layer in model.list_layers() if layer is not model.objective)]
    are_ours = all(type(layer).__module__.startswith("keras_nplm.") for layer in used)
    if are_ours and model.compute_dtype == "float32":
        with contextlib.suppress(InputError):
            return convert_network(model)
    return None


def convert_network(model: NextWordModel) -> NetworkArrays:
    """Return the present weights of a network in NumPy.

    Raises:
        InputError: the head has no logits of all words, or a layer has no form in NumPy.
    """
    if not isinstance(model, ContextNetwork) or model.reads_log_q:
        raise refuse_network(type(model).__name__)
    spans = model.embed.position_spans(model.order - 1)
    obstacle = _find_obstacle(model)
    if spans is None or np.shape(spans[1]) != (model.order - 1,):
        obstacle = type(model.embed).__name__
    if spans is None or obstacle:
        raise refuse_network(obstacle)
    arrays = _convert_layers(model, *spans)
    if isinstance(model, PointerNetwork):
        return dataclasses.replace(arrays, weigh_copies=model.pointer.to_array_function())
    return arrays


def _convert_layers(model: ContextNetwork, block: np.ndarray, scale: np.ndarray) -> NetworkArrays:
    hidden = model.hidden
    head = model.prob
    C = _float32(model.embed.C)
    C[0] = 0  # <pad> adds a zero vector
    b = _float32(head.b)
    arrays = NetworkArrays(model.boundary, block, scale, C, b)
    if isinstance(head, EnergyHead):
        return dataclasses.replace(
            arrays, H=_float32(head.H), d=_float32(head.d), v=_float32(head.v)
        )
    if isinstance(hidden, Hidden):
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
        W=None if model.direct is None else _float32(model.direct.W),
    )


def _find_obstacle(model: ContextNetwork) -> str:
    """Return what of a network, but for its context layer, has no form in NumPy, or ""."""
    hidden = model.hidden
    head = model.prob
    if head.num_outputs < model.vocabulary_size:
        return f"a head of {head.num_outputs} of {model.vocabulary_size} words"
    if isinstance(head, EnergyHead):
        return ""
    if not head.has_word_rows:
        return type(head).__name__
    if not (hidden is None or isinstance(hidden, Hidden | NoHidden)):
        return type(hidden).__name__
    return ""


def _float32(weight: Tensor) -> np.ndarray:
    return np.array(weight, np.float32)
