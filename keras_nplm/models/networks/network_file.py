"""Load `model.keras` from an untrusted source: only known classes, no more weights than the file
holds.
"""

import importlib
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np

from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import check_is_file
from keras_nplm.io.forks import refuse_after_fork
from keras_nplm.models.networks.context_network import ContextNetwork
from keras_nplm.models.networks.network_archive import count_weights, read_archive

_PACKAGE = "keras_nplm>"  # begins the names of classes that this package registers
_FLOAT = 4  # bytes


def load_network(path: Path) -> ContextNetwork:
    """Load a network, not compiled.

    Keras creates objects of the classes and sizes that a file names: it is checked.
    """
    if not path.is_file():
        raise InputError(
            f"{path} does not exist: training has not finished an epoch. Fix: train again."
        )
    check_is_file(path)
    refuse_after_fork(str(path))
    # all classes that a file may name
    importlib.import_module("keras_nplm.models.networks.registered")
    try:
        described, data = read_archive(path)
        _refuse_foreign_classes(path, described)
        number = count_weights(data)
        if _count_described_weights(described) > number:
            raise ValueError(f"it describes more weights than the {number:,} that it holds")
        model = keras.models.load_model(path, compile=False, safe_mode=True)
    except InputError:
        raise
    except Exception as error:  # zipfile, h5py and Keras raise many kinds on a damaged file
        cause = summarize_error(error)
        raise InputError(
            f"{path} must be a whole model file ({cause}). Fix: train the model again."
        ) from error
    for weight in model.weights:
        if not np.isfinite(weight.numpy()).all():
            raise InputError(
                f"{path}: the weights {weight.path} must be finite. Fix: train the model again."
            )
    return model


def _refuse_foreign_classes(path: Path, value: object) -> None:
    """Refuse a configuration that makes Keras create other objects than the layers of a network."""
    if isinstance(value, dict):
        if "class_name" in value and not _is_known(value):
            _refuse_newer_class(path, value)
            raise InputError(
                f"{path} must hold layers of keras_nplm, or layers that the program registers. "
                f"Received: the class {value.get('module')}.{value['class_name']}. Fix: use "
                "TanhHidden or DeepHidden, or read a file that you trust with "
                "`keras.models.load_model`."
            )
        # Keras would build a layer of this size, whatever the weights are
        if "build_config" in value:
            raise ValueError("it names the input shape of a layer, which the network knows")
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _refuse_foreign_classes(path, part)


def _refuse_newer_class(path: Path, described: dict) -> None:
    """Refuse a class of a version of this package that has more of them."""
    registered = described.get("registered_name")
    if not isinstance(registered, str) or not registered.startswith(_PACKAGE):
        return
    if keras.saving.get_registered_object(registered) is None:
        raise InputError(
            f"{path} must hold layers of this version of keras_nplm. Received: the class "
            f"{registered.removeprefix(_PACKAGE)}, which it does not have. Fix: update the "
            "package, or train again."
        )


def _is_known(described: dict) -> bool:
    registered = described.get("registered_name")
    if registered is None:
        return (described.get("module"), described["class_name"]) == ("keras", "DTypePolicy")
    if not isinstance(registered, str):
        return False
    kind = keras.saving.get_registered_object(registered)
    is_layer = isinstance(kind, type) and issubclass(kind, keras.layers.Layer)
    return is_layer and (registered.startswith(_PACKAGE) or not registered.startswith("keras>"))


def _count_described_weights(described: dict) -> int:
    """Return the number of weights that loading would allocate; a ValueError if the options are out
    of range.
    """

    def count() -> int:
        # weights have shapes only; leaving the scope would allocate them
        keras.StatelessScope().__enter__()
        network = keras.saving.deserialize_keras_object(described)
        if not isinstance(network, ContextNetwork):
            raise ValueError(f"it holds no network but a {type(network).__name__}")
        return sum(math.prod(weight.shape) for weight in network.weights)

    try:
        with ThreadPoolExecutor(1) as thread:  # the scope is one of a thread, and ends with it
            return thread.submit(count).result()
    except InputError as error:
        raise ValueError(str(error)) from error


def check_memory(number: int) -> None:
    """Refuse a network of `number` weights that are larger than the memory of this machine."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system can say
        return
    if number * _FLOAT > memory:
        received = (
            f"{number:,} weights. Fix: lower `order`, `embedding_dim`, `hidden_units` or "
            "`max_size`."
        )
        raise InputError(
            f"The network must fit into {memory:,} bytes of memory. Received: {received}"
        )
