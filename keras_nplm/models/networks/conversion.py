"""From the Keras layers of a network to arrays: their present weights, and what they compute."""

import contextlib
from typing import Any

import keras

from keras_nplm.io.errors import InputError
from keras_nplm.layers.ops import ConfiguredLayer
from keras_nplm.models.base import Network
from keras_nplm.models.networks.arrays import NetworkArrays, refuse_network


def find_saved_arrays(model: Any) -> NetworkArrays | None:
    """Return the arrays that are saved beside a network, whose probabilities are those of Keras.

    None: a layer is not of this package or has no form in NumPy, or the network is not of float32.
    """
    used = [model, *_list_scorers(model)]
    are_ours = all(type(layer).__module__.startswith("keras_nplm.") for layer in used)
    if are_ours and model.compute_dtype == "float32":
        with contextlib.suppress(InputError):
            return convert_network(model)
    return None


def convert_network(model: Any) -> NetworkArrays:
    """Return the present weights of a network in NumPy.

    Raises:
        InputError: the head has no logits of all words, or a layer has no form in NumPy.
    """
    if not isinstance(model, Network) or model.reads_log_q:
        raise refuse_network(type(model).__name__)
    fields: dict[str, Any] = {"boundary": model.boundary}
    for layer in _list_scorers(model):
        arrays = layer.list_arrays() if isinstance(layer, ConfiguredLayer) else None
        if arrays is None:
            raise refuse_network(type(layer).__name__)
        fields |= arrays
    return NetworkArrays(**fields, U_sees_x="U" in fields and model.hidden is None)


def _list_scorers(model: Any) -> list[keras.layers.Layer]:
    return [layer for layer in model.list_layers() if layer is not model.objective]
