"""Load `model.keras` from an untrusted source: only known classes, no more weights than the file holds."""

import io
import os
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import check_is_file, check_json_size, open_archive, parse_json
from keras_nplm.io.shapes import number_of_blocks
from keras_nplm.layers.averaged_context import AveragedContext
from keras_nplm.layers.context import ContextEmbedding
from keras_nplm.layers.deep_hidden import DeepHidden
from keras_nplm.layers.hidden import TanhHidden
from keras_nplm.layers.outputs import OUTPUTS
from keras_nplm.models.nplm import NPLM

_WEIGHTS = "model.weights.h5"
_PARTS = {"metadata.json", "config.json", _WEIGHTS}
_CONTEXTS = (ContextEmbedding, AveragedContext)
_HIDDEN = (TanhHidden, DeepHidden)
_CLASSES = {f"keras_nplm>{kind.__name__}" for kind in (NPLM, *_CONTEXTS, *_HIDDEN, *OUTPUTS.values())}
_KERAS_CLASSES = {("keras", "DTypePolicy")}
_FLOAT = 4  # bytes
_MOST = 1 << 10  # residual blocks, and the order: the limits of `keras_nplm.io.options`
_MOST_SAMPLED = 1 << 20
_MAX_CONFIG = 1 << 20  # bytes of config.json and of metadata.json; a network of this package needs 10,000
_LONGEST = 1000  # characters of its strings, items of its lists


class _ForeignClass(ValueError):
    """A class that a file may not make Keras create; the message is its name."""


def load_network(path: Path) -> NPLM:
    """Load a network from a `.keras` file, not compiled.

    Keras creates objects of the classes and sizes that a file names. So the file is checked first. It may name the
    layers of this package, and layers that the program has registered. It must hold its weights itself, and as many
    as its configuration describes. A layer of Keras itself, such as `Dense`, is refused: use
    `keras.models.load_model` for a file that you trust.

    Raises:
        InputError: the file is absent, damaged, or holds weights that are not finite.
    """
    check_is_file(path)
    try:
        with open_archive(path) as archive:
            _check_parts(archive, path)
        model = keras.models.load_model(path, compile=False, safe_mode=True)
    except InputError:
        raise
    except _ForeignClass as error:
        raise InputError(
            f"{path} must hold layers of keras_nplm, or layers that the program registers. Received: the class "
            f"{error}. Fix: use TanhHidden or DeepHidden, or read a file that you trust with `keras.models.load_model`."
        ) from error
    except Exception as error:  # zipfile, h5py and Keras raise many kinds on a damaged file
        raise InputError(
            f"{path} must be a whole model file ({summarize_error(error)}). Fix: train the model again."
        ) from error
    if not isinstance(model, NPLM):
        raise InputError(
            f"{path} must hold an NPLM. Received: {type(model).__name__}. Fix: name a directory of `train`."
        )
    for weight in model.weights:
        if not np.isfinite(weight.numpy()).all():
            raise InputError(f"{path}: the weights {weight.path} must be finite. Fix: train the model again.")
    return model


def _check_parts(archive: zipfile.ZipFile, path: Path) -> None:
    """Raise a ValueError if the file cannot be the model that it describes, or names classes of others."""
    if sorted(archive.namelist()) != sorted(_PARTS):
        raise ValueError(f"its parts must be {', '.join(sorted(_PARTS))}")
    described, _ = (_read_part(archive, path, name) for name in ("config.json", "metadata.json"))
    described.pop("compile_config", None)  # loading does not compile
    described.pop("build_config", None)  # NPLM is built by then
    _refuse_foreign_classes(described)
    least = _count_least_weights(described.get("config"))
    weights = archive.read(_WEIGHTS)  # `open_archive` has limited its size
    with h5py.File(io.BytesIO(weights), "r") as stored:
        number = _count_stored_weights(stored, len(weights))
    if least > number:
        raise ValueError(f"it describes more weights than the {number:,} that it holds")


def _read_part(archive: zipfile.ZipFile, path: Path, name: str) -> dict:
    """Read a JSON object of the archive. Keras copies the name of a model into the name of each weight."""
    source = f"{name} in {path}"
    check_json_size(source, archive.getinfo(name).file_size, _MAX_CONFIG)
    return parse_json(source, archive.read(name).decode("utf-8"), _LONGEST)


def _refuse_foreign_classes(value: object) -> None:
    """Refuse a configuration that makes Keras create other objects than the layers of a network."""
    if isinstance(value, dict):
        if "class_name" in value and not _is_known(value):
            raise _ForeignClass(f"{value.get('module')}.{value['class_name']}")
        if "build_config" in value:  # Keras would build a layer of this size, whatever the weights are
            raise ValueError("it names the input shape of a layer, which NPLM knows")
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _refuse_foreign_classes(part)


def _is_known(described: dict) -> bool:
    registered = described.get("registered_name")
    if registered is None:
        return (described.get("module"), described["class_name"]) in _KERAS_CLASSES
    if not isinstance(registered, str):
        return False
    if registered in _CLASSES:
        return True
    kind = keras.saving.get_registered_object(registered)
    return isinstance(kind, type) and issubclass(kind, keras.layers.Layer)


def _count_stored_weights(stored: h5py.File, size: int) -> int:
    """Return the number of weights that the file holds; a ValueError if a different file holds them."""
    found: list[h5py.Dataset] = []
    links: list[object] = []
    stored.visititems(lambda name, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    stored.visititems_links(lambda name, link: links.append(link))
    if any(not isinstance(link, h5py.HardLink) for link in links) or any(
        part.external or part.is_virtual for part in found
    ):
        raise ValueError("a different file holds its weights")
    if sum(part.nbytes for part in found) > size:
        raise ValueError("its weights claim to be larger than the file")
    return sum(part.size for part in found)


def _count_least_weights(config: object) -> int:
    """Return the number of weights in the matrices that a configuration describes: what building it would allocate."""
    if not isinstance(config, dict):
        raise ValueError("its config.json describes no network")
    context, hidden, output = (_layer_config(config, part) for part in ("context", "hidden", "output"))
    size, order = _read_integer(config, "vocabulary_size"), _read_integer(config, "order", _MOST)
    m = _read_integer(context if "embedding_dim" in context else config, "embedding_dim")
    h = _read_integer(next(part for part in (output, hidden, config) if "hidden_units" in part), "hidden_units")
    _read_integer(output, "num_sampled", _MOST_SAMPLED, default=0)
    blocks = _read_integer(hidden, "residual_blocks", _MOST, default=0)
    width = m * number_of_blocks(order, _check_edges(context.get("averages_after") or []))
    rank, tied = _read_integer(output, "rank", default=0), output.get("tied") is True
    listed = _read_integer(output, "shortlist_size", default=0)
    features = h + width * (config.get("direct_connections") is True)
    columns = m if tied else rank or features
    rows = 0 if tied else len(SPECIALS) + listed if listed else size
    kind = config.get("output") if isinstance(config.get("output"), str) else _class_name(config.get("output"))
    linear = any(kind in (name, known.__name__) for name, known in OUTPUTS.items() if known.has_output_vectors)
    kernel = rows * columns if linear else columns
    hidden_kind = _class_name(config.get("hidden"))
    is_known = hidden_kind is None or hidden_kind in {known.__name__ for known in _HIDDEN}
    least = size * m + h * width * is_known + blocks * h * h + kernel + (features * columns if tied or rank else 0)
    return least + (2 * features * m if config.get("pointer") is True else 0)


def _layer_config(config: dict, part: str) -> dict:
    layer = config.get(part)
    inner = layer.get("config") if isinstance(layer, dict) else None
    return inner if isinstance(inner, dict) else {}


def _class_name(layer: object) -> object:
    return layer.get("class_name") if isinstance(layer, dict) else None


def _read_integer(config: dict, name: str, most: int = 1 << 40, default: int | None = None) -> int:
    value = config.get(name)
    value = default if value is None and default is not None else value
    if type(value) is not int or not 0 <= value < most:
        raise ValueError(f"`{name}` in its config.json must be an integer from 0 to {most - 1:,}")
    return value


def _check_edges(averages_after: object) -> list[int]:
    if not isinstance(averages_after, list) or any(type(edge) is not int or edge < 0 for edge in averages_after):
        raise ValueError("`averages_after` in its config.json must be a list of integers")
    return averages_after


def check_memory(number: int) -> None:
    """Refuse a network of `number` weights that are larger than the memory of this machine."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not every system can say
        return
    if number * _FLOAT > memory:
        raise InputError(
            f"The network must fit into {memory:,} bytes of memory. Received: {number:,} weights. Fix: lower `order`, "
            "`embedding_dim`, `hidden_units` or `max_size`."
        )
