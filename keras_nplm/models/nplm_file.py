"""`model.keras`, read without trust: no class but the package's is made of it, and nothing larger than the file."""

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import h5py
import keras
import numpy as np

from keras_nplm.data.vocabulary import SPECIALS
from keras_nplm.io.errors import InputError
from keras_nplm.io.files import check_is_file, open_archive, summarize_error
from keras_nplm.io.shapes import number_of_blocks
from keras_nplm.layers.outputs import OUTPUTS, LinearOutput
from keras_nplm.models.nplm import NPLM

_WEIGHTS = "model.weights.h5"
_PARTS = {"metadata.json", "config.json", _WEIGHTS}
_CLASSES = {f"keras_nplm>{kind.__name__}" for kind in (NPLM, *OUTPUTS.values())}
_KERAS_CLASSES = {("keras", "DTypePolicy")}
_FLOAT = 4  # bytes
_MOST = 1 << 10  # residual blocks, and words of a context whose averages are taken: as many as `train` lets one have


def load_network(path: Path) -> NPLM:
    """Read a network, not compiled.

    Keras makes objects of whatever classes a file names, after the sizes that it names. So the file is looked at
    first: it may name the package's own classes alone (or Keras layers that this program has registered itself), and
    weights that are as large as those it holds.

    Args:
        path: the `.keras` file.

    Raises:
        InputError: it is absent, damaged or not such a file, or its weights are not finite.
    """
    check_is_file(path)
    try:
        with open_archive(path) as archive:
            _check_parts(archive)
        model = keras.models.load_model(path, compile=False, safe_mode=True)
    except Exception as error:  # of many kinds: whatever zipfile, h5py and Keras come upon in a damaged file
        raise InputError(f"{path} is not a whole model file ({summarize_error(error)}): train it again.") from error
    if not isinstance(model, NPLM):
        raise InputError(f"{path} holds a {type(model).__name__}, not an NPLM: name a directory of this package.")
    for weight in model.weights:
        if not np.isfinite(weight.numpy()).all():
            raise InputError(f"{path} holds weights that are not finite ({weight.path}): train it again.")
    return model


def _check_parts(archive: zipfile.ZipFile) -> None:
    """Look at what the archive holds; a ValueError says what is wrong."""
    if sorted(archive.namelist()) != sorted(_PARTS):
        raise ValueError(f"its parts must be {', '.join(sorted(_PARTS))}")
    described = json.loads(archive.read("config.json"))
    weights = archive.read(_WEIGHTS)
    if not isinstance(described, dict):
        raise ValueError("its config.json holds no object")
    described.pop("compile_config", None)  # of which nothing is made
    _refuse_foreign_classes(described)
    with h5py.File(io.BytesIO(weights), "r") as stored:
        number = _number_stored(stored, len(weights))
    if _number_described(described.get("config")) > number:
        raise ValueError(f"it describes more weights than the {number:,} that it holds")


def _refuse_foreign_classes(value: object) -> None:
    if isinstance(value, dict):
        if "class_name" in value and not _is_known(value):
            raise ValueError(f"it names the class {value.get('module')}.{value['class_name']}, which is not of an NPLM")
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


def _number_stored(stored: h5py.File, size: int) -> int:
    """How many numbers the weights hold, which must lie in the file itself."""
    found: list[h5py.Dataset] = []
    links: list[object] = []
    stored.visititems(lambda name, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    stored.visititems_links(lambda name, link: links.append(link))
    if any(not isinstance(link, h5py.HardLink) for link in links) or any(
        part.external or part.is_virtual for part in found
    ):
        raise ValueError("its weights lie in another file")
    if sum(part.nbytes for part in found) > size:
        raise ValueError("its weights claim to be larger than the file")
    return sum(part.size for part in found)


def _number_described(config: object) -> int:
    names = ("vocabulary_size", "order", "embedding_dim", "hidden_units")
    if not isinstance(config, dict) or any(type(config.get(name)) is not int or config[name] < 0 for name in names):
        raise ValueError("its config.json describes no network")
    for name in ("output_rank", "shortlist_size"):
        if type(config.get(name)) not in (int, type(None)):
            raise ValueError(f"its config.json describes a network whose `{name}` is no integer")
    after = config.get("averages_after") or []
    if not isinstance(after, list) or any(type(edge) is not int for edge in after):
        raise ValueError("its config.json describes averages after what are no integers")
    blocks = config.get("residual_blocks", 0)
    if type(blocks) is not int or not 0 <= blocks < _MOST:
        raise ValueError("its config.json describes no possible number of residual blocks")
    if after and config["order"] >= _MOST:
        raise ValueError("its config.json describes averages over a context that is too long")
    output = config.get("output_layer")
    chosen = output.get("class_name") if isinstance(output, dict) else output
    linear = any(chosen in (name, kind.__name__) for name, kind in OUTPUTS.items() if issubclass(kind, LinearOutput))
    return least_number_of_weights(config, config["vocabulary_size"], linear)


def least_number_of_weights(options: Mapping, vocabulary_size: int, linear: bool) -> int:
    """How many weights the matrices of a network have, those of an output that is not linear left out.

    Args:
        options: the arguments of `NPLM`.
        vocabulary_size: |V|.
        linear: whether the output has a row of the features' width a word.

    Example:

    >>> least_number_of_weights(dict(order=5, embedding_dim=30, hidden_units=50), 1000, linear=True)
    86000
    """
    m, h = options["embedding_dim"], options["hidden_units"]
    context = number_of_blocks(options["order"], options.get("averages_after") or ())
    features = h + context * m * bool(options.get("direct_connections"))
    tied, rank = options.get("tied_output"), options.get("output_rank")
    width = m if tied else rank or features
    projection = features * width if tied or rank else 0
    shortlist_size = options.get("shortlist_size")
    predicted = vocabulary_size if shortlist_size is None else len(SPECIALS) + shortlist_size
    hidden = h * context * m + options.get("residual_blocks", 0) * h * h
    return vocabulary_size * m + hidden + projection + (0 if tied else (predicted * linear or 1) * width)


def check_memory(number: int) -> None:
    """Refuse a network whose weights alone are larger than this machine's memory, before it is exhausted.

    Raises:
        InputError: so many weights are.
    """
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return
    if number * _FLOAT > memory:
        raise InputError(
            f"The network would have {number:,} weights, more than the {memory:,} bytes of memory hold: lower `order`, "
            "`embedding_dim`, `hidden_units` or `max_size`."
        )
