"""Read `model.keras` into NumPy, without Keras: the start of a command takes a second, not five.

`complete` of the starter model takes 0.5 CPU seconds, where it takes 5.8 through Keras. The layers
are those of `keras_nplm.layers.arrays`, which scorers use, too. Here stands where a file has their
options and weights, and nothing of what they compute. Networks of linear heads without a short-list
are read, in float32, with the context and hidden layers of this package. Keras reads all others.
"""

import contextlib
import functools
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from keras_nplm.data.boundary import check_boundary_name
from keras_nplm.io.shapes import check_averages, count_matched
from keras_nplm.layers.arrays import (
    NORM_EPSILON,
    BlockArrays,
    NormArrays,
    compute_tanh,
    list_position_spans,
    multiply_kernel,
    transform_deep,
    weigh_copies,
)
from keras_nplm.models.networks.arrays import NetworkArrays
from keras_nplm.models.networks.network_archive import list_weights, read_archive

_PACKAGE = "keras_nplm>"  # begins the registered names of our classes
_KERAS = {"name", "trainable", "dtype"}  # options of every layer
_NO_PART: dict[str, Any] = {"class_name": "None", "config": {}}


def read_network_arrays(path: Path) -> NetworkArrays | None:
    """Return the weights of a network.

    None: Keras must read it. Another layer or dtype has no form here. Of a damaged file Keras's
    reader says what is wrong.
    """
    with contextlib.suppress(Exception):
        described, data = read_archive(path)
        described.pop("build_config", None)
        described["config"].pop("objective", None)  # scores do not depend on it
        _check_classes(described)
        with h5py.File(io.BytesIO(data), "r") as stored:
            for weight in list_weights(stored, len(data)):
                _check(np.isfinite(weight[()]).all())
            return _read(described, stored)
    return None


def _check(fits: bool) -> None:
    """Raise an error, which no one sees, where this module cannot read a file."""
    if not fits:
        raise ValueError


def _check_classes(value: object) -> None:
    """Refuse classes of others, also in options that scores do not use, and dtypes but float32."""
    if isinstance(value, dict):
        if "class_name" in value:
            is_dtype = (value["module"], value["class_name"]) == ("keras", "DTypePolicy")
            is_ours = value["registered_name"] == _PACKAGE + value["class_name"]
            _check(is_ours or (is_dtype and value["config"]["name"] == "float32"))
        _check("build_config" not in value)
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_classes(part)


def _read(described: dict, stored: h5py.File) -> NetworkArrays:
    kind = described["class_name"]
    options = described["config"]
    _check(kind in ("NPLM", "ContextNetwork", "PointerNetwork"))
    parts = _list_paper_parts(options) if kind == "NPLM" else _list_parts(options)
    order = options["order"]
    boundary = options["boundary"]
    _check(type(order) is int)
    check_boundary_name(boundary)
    block, scale, C = _read_embed(parts["embed"], order, stored["embed"])
    size, m = C.shape
    blocks = int(block.max()) + 1
    H, d, transform = _read_hidden(parts["hidden"], blocks * m, stored)
    U_sees_x = parts["hidden"] is _NO_PART
    width = blocks * m if U_sees_x else 0 if d is None else len(d)
    U, b = _read_head(parts["head"], C, width, stored["layers/linear_head"])
    # `<pad>` adds a zero vector; a head that is tied to C has a row for it
    C = C.copy()
    C[0] = 0
    W = None
    if parts["direct"] is not _NO_PART:
        _check(parts["direct"]["class_name"] == "DirectConnection")
        _check(parts["direct"]["config"]["units"] == size)
        W = _read_weights(stored["direct"], W=(size, blocks * m))["W"]
    copies = None
    if kind == "PointerNetwork":
        _check(options["pointer"]["class_name"] == "Pointer")
        copies = functools.partial(weigh_copies, C, *_read_pointer(stored, width, m, order - 1))
    return NetworkArrays(
        order=order,
        vocabulary_size=size,
        boundary=boundary,
        block=block,
        scale=scale,
        C=C,
        b=b,
        H=H,
        d=d,
        transform=transform,
        U=U,
        U_sees_x=U_sees_x,
        W=W,
        weigh_copies=copies,
    )


def _list_parts(options: dict) -> dict[str, dict]:
    """Return the layers of a network by their names in its configuration."""
    names = ("embed", "hidden", "direct", "head")
    _check(options.keys() <= {*_KERAS, *names, "order", "boundary", "pointer"})
    return {name: options[name] or _NO_PART for name in names}


def _list_paper_parts(options: dict) -> dict[str, dict]:
    """Return the layers of an `NPLM`, whose configuration has its sizes only."""
    size = options["vocabulary_size"]
    units = options["hidden_units"]
    embed = {"vocabulary_size": size, "embedding_dim": options["embedding_dim"]}
    head = {"vocabulary_size": size, "rank": None, "tied": False, "num_outputs": None}
    direct = {"class_name": "DirectConnection", "config": {"units": size}}
    return {
        "embed": {"class_name": "ContextEmbedding", "config": embed},
        "hidden": {
            "class_name": "TanhHidden" if units else "NoHidden",
            "config": {"hidden_units": units},
        },
        "direct": direct if options["direct_connections"] else _NO_PART,
        "head": {"class_name": "LinearHead", "config": head},
    }


def _read_embed(
    part: dict, order: int, stored: h5py.Group
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the spans of the positions and C, with the row of `<pad>` as it is stored."""
    options = part["config"]
    averages: tuple[int, ...] = ()
    if part["class_name"] == "AveragedContext":
        averages = tuple(options["averages_after"])
        check_averages(averages)
        _check(averages[-1] < order - 1)
    else:
        _check(part["class_name"] == "ContextEmbedding")
    block, scale = list_position_spans(order - 1, averages)
    shape = options["vocabulary_size"], options["embedding_dim"]
    return block, scale, _read_weights(stored, C=shape)["C"]


def _read_hidden(part: dict, width: int, stored: h5py.File) -> tuple[Any, Any, Any]:
    """Return H, d and what follows d + H x; None of each without hidden units."""
    kind = part["class_name"]
    if part is _NO_PART or kind == "NoHidden":
        return None, None, None
    _check(kind in ("TanhHidden", "DeepHidden"))
    options = part["config"]
    h = options["hidden_units"]
    group = stored["hidden"]
    weights = _read_weights(group, H=(width, h), d=(h,))
    if kind == "TanhHidden":
        return weights["H"], weights["d"], compute_tanh
    has_norm = options["layer_norm"]
    blocks = []
    for number in range(options["residual_blocks"]):
        block = group[f"blocks/residual_block_{number}" if number else "blocks/residual_block"]
        of_block = _read_weights(block, H=(h, h), d=(h,))
        norm = _read_norm(block, h) if has_norm else None
        blocks.append(BlockArrays(norm, of_block["H"], of_block["d"]))
    last = _read_norm(group, h) if has_norm else None
    transform = functools.partial(transform_deep, options["activation"], blocks, last)
    return weights["H"], weights["d"], transform


def _read_norm(group: h5py.Group, h: int) -> NormArrays:
    # Keras's own layers number their weights
    weights = _read_weights(group["norm"], **{"0": (h,), "1": (h,)})
    return NormArrays(weights["0"], weights["1"], NORM_EPSILON)


def _read_head(
    part: dict, C: np.ndarray, width: int, group: h5py.Group
) -> tuple[np.ndarray, np.ndarray]:
    """Return U, of low rank U P, and b."""
    options = part["config"]
    size, m = C.shape
    _check(part["class_name"] == "LinearHead" and options["vocabulary_size"] == size)
    _check(options["num_outputs"] in (None, size))
    rank = options["rank"]
    if options["tied"]:
        weights = _read_weights(group, P=(width, m), b=(size,))
        return multiply_kernel(C, weights["P"]), weights["b"]
    if rank is not None:
        weights = _read_weights(group, P=(width, rank), U=(size, rank), b=(size,))
        return multiply_kernel(weights["U"], weights["P"]), weights["b"]
    if not width:
        return np.zeros((size, 0), np.float32), _read_weights(group, b=(size,))["b"]
    weights = _read_weights(group, U=(size, width), b=(size,))
    return weights["U"], weights["b"]


def _read_pointer(stored: h5py.File, width: int, m: int, positions: int) -> list[np.ndarray]:
    """Return Q, R, v, u and r."""
    matched = count_matched(positions)
    shapes = dict(Q=(width, m), R=(width, m), v=(m,), u=(positions,), r=(matched,))
    weights = _read_weights(stored["layers/pointer"], **shapes)
    return [weights[name] for name in shapes]


def _read_weights(group: h5py.Group, **shapes: tuple[int, ...]) -> Mapping[str, np.ndarray]:
    """Return the weights of a layer: these and no others, of float32."""
    weights = {name: weight[()] for name, weight in group["vars"].items()}
    _check(weights.keys() == shapes.keys())
    for name, weight in weights.items():
        _check(weight.shape == shapes[name] and weight.dtype == np.float32)
    return weights
