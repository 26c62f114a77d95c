"""Load `model.keras` from an untrusted source: only known classes, no more weights than the file
holds.
"""

import io
import math
import os
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import h5py
import keras
import numpy as np

from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import check_is_file, check_json_size, open_archive, parse_json
from keras_nplm.models.networks.context_network import ContextNetwork

_WEIGHTS = "model.weights.h5"
_PARTS = ["config.json", "metadata.json", _WEIGHTS]
# bytes of config.json and of metadata.json; a network of this package needs 10,000
_MAX_CONFIG = 1 << 16
_REMEDY = (
    "before loading, import the module that has it, decorated with "
    "`@keras.saving.register_keras_serializable()`, or update keras_nplm."
)
_FLOAT = 4  # bytes
# Keras's classes that compute with numbers alone, by the beginning of their module
_KERAS_MODULES = tuple(
    f"keras.src.{module}."
    for module in (
        "constraints",
        "dtype_policies",
        "initializers",
        "layers",
        "models",
        "ops",
        "random",
        "regularizers",
    )
)
_OTHER_LAYERS = ("keras.src.layers.core.lambda_layer", "keras.src.layers.preprocessing.")
# what Keras writes in the place of a tensor or a value
_VALUES = {"__keras_tensor__", "__tensor__", "__numpy__", "__slice__", "__ellipsis__"}
Loaded = TypeVar("Loaded", bound=keras.Model)


def load_network(path: Path) -> ContextNetwork:
    """Load a network, not compiled; see `load_keras_model`."""
    return load_keras_model(path, ContextNetwork, _MAX_CONFIG)


def load_keras_model(path: Path, kind: type[Loaded], max_config: int) -> Loaded:
    """Load a Keras model of a class, not compiled, whose configuration has at most `max_config`
    bytes.

    Keras creates objects of the classes and sizes that a file names: it is checked.
    """
    check_is_file(path)
    # all classes that a file may name
    import keras_nplm.models.networks.registered  # noqa: F401

    try:
        described, data = _read_archive(path, max_config)
        _refuse_foreign_classes(path, described)
        number = _count_weights(data)
        if _count_described_weights(described, kind) > number:
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


def _read_archive(path: Path, max_config: int) -> tuple[dict, bytes]:
    """Return the configuration of a network and the bytes of its weights, HDF5.

    How the network was compiled, which loading does not use, is left out. Damage is an error of any
    kind.
    """
    with open_archive(path) as archive:
        if sorted(archive.namelist()) != _PARTS:
            raise ValueError(f"its parts must be {', '.join(_PARTS)}")
        described, _ = (_read_part(archive, path, name, max_config) for name in _PARTS[:2])
        described.pop("compile_config", None)
        # `open_archive` has limited its size
        return described, archive.read(_WEIGHTS)


def _read_part(archive: zipfile.ZipFile, path: Path, name: str, max_size: int) -> dict:
    """Read a JSON object of the archive.

    Keras copies the name of a model into the name of each weight.
    """
    source = f"{name} in {path}"
    check_json_size(source, archive.getinfo(name).file_size, max_size)
    return parse_json(source, archive.read(name).decode("utf-8"))


def _count_weights(data: bytes) -> int:
    """Return the number of weights in the bytes of an HDF5 file; a ValueError if a different file
    holds them.
    """
    found: list[h5py.Dataset] = []
    links: list[object] = []
    with h5py.File(io.BytesIO(data), "r") as stored:
        stored.visititems(
            lambda name, item: found.append(item) if isinstance(item, h5py.Dataset) else None
        )
        stored.visititems_links(lambda name, link: links.append(link))
        is_whole = all(isinstance(link, h5py.HardLink) for link in links)
        is_elsewhere = not is_whole or any(part.external or part.is_virtual for part in found)
        if is_elsewhere or sum(part.nbytes for part in found) > len(data):
            raise ValueError("it does not hold all weights that it lists")
        return sum(part.size for part in found)


def _refuse_foreign_classes(path: Path, value: object) -> None:
    """Refuse a configuration that makes Keras create other objects than those of layers."""
    if isinstance(value, dict):
        if "class_name" in value and not _is_known(value):
            raise InputError(
                f"{path} must hold layers of keras_nplm or Keras, or layers that the program "
                f"registers. Received: the class {_name_class(value)}. Fix: {_REMEDY}"
            )
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _refuse_foreign_classes(path, part)


def _name_class(described: dict) -> str:
    """Return the name of a class, with its module where a file has it, or of a function."""
    name = described["class_name"]
    module = described.get("module")  # Keras leaves it out of some classes
    if name == "function":
        return f"{described.get('config')}"
    return f"{name}" if module is None else f"{module}.{name}"


def _is_known(described: dict) -> bool:
    name = described["class_name"]
    if name in _VALUES or _is_keras_class(described.get("module"), name):
        return True
    # the name by which Keras looks for a class or a function that others register
    registered = described.get("config" if name == "function" else "registered_name")
    if not isinstance(registered, str) or registered.startswith("keras>"):
        return False
    kind = keras.saving.get_registered_object(registered)
    if name == "function":
        return kind is not None
    return isinstance(kind, type) and issubclass(kind, keras.layers.Layer)


def _is_keras_class(module: object, name: object) -> bool:
    """Return whether Keras has a class of this name that computes with numbers alone."""
    if not (isinstance(module, str) and isinstance(name, str)):
        return False
    kind = getattr(sys.modules.get(module), name, None)
    if not isinstance(kind, type):
        return False
    return kind.__module__.startswith(_KERAS_MODULES) and not kind.__module__.startswith(
        _OTHER_LAYERS
    )


def _count_described_weights(described: dict, kind: type[keras.Model]) -> int:
    """Return the number of weights that loading would allocate; a ValueError if the options are out
    of range.
    """

    def count() -> int:
        # weights have shapes only; leaving the scope would allocate them
        keras.StatelessScope().__enter__()
        network = keras.saving.deserialize_keras_object(described)
        if not isinstance(network, kind):
            raise ValueError(f"it holds no {kind.__name__} but a {type(network).__name__}")
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
