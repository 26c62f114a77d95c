"""The weights of a network in NumPy, and `scorer.npz`, which has them beside `model.keras`.

A command that asks for probabilities alone reads `scorer.npz`: its start takes a second, where that
of Keras takes five.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_nplm.io.errors import InputError, summarize_error
from keras_nplm.io.files import read_arrays, write_archive
from keras_nplm.layers.arrays import BlockArrays, CopyArrays, DeepArrays, NormArrays, TanhArrays


@dataclasses.dataclass(frozen=True)
class NetworkArrays:
    """The weights of a network, in float32, and what its layers compute in NumPy.

        x = [sum_{k in block j} scale_k C[w_k]],    a = transform(d + H x),    y = b + U a (+ W x)

    With an energy head y_w = b_w + v · tanh(d + H [x; C[w]]).

    Attributes:
        boundary: as in `ContextNetwork`.
        block, scale: int and float [n-1], of the positions; see `ContextEmbedding.position_spans`.
        C: [|V|, m], with zeros for `<pad>`.
        b: [|V|].
        H, d: [w, h] and [h], of the hidden layer or of an energy head. None: there are no hidden
            units.
        transform: what follows d + H x; it may write to its argument. None with an energy head and
            without hidden units.
        U: [|V|, h], or [|V|, w] where the head sees x. None with an energy head.
        U_sees_x: whether the features of the head are x.
        W: [|V|, w], of direct connections, or None.
        v: [h], of an energy head, or None.
        weigh_copies: the weights of a pointer as a function of C, features and contexts, or None.
    """

    boundary: str
    block: np.ndarray
    scale: np.ndarray
    C: np.ndarray
    b: np.ndarray
    H: np.ndarray | None = None
    d: np.ndarray | None = None
    transform: Callable[[np.ndarray], np.ndarray] | None = None
    U: np.ndarray | None = None
    U_sees_x: bool = False
    W: np.ndarray | None = None
    v: np.ndarray | None = None
    weigh_copies: CopyArrays | None = None

    def write(self, path: Path) -> None:
        """Write `scorer.npz`: the classes and settings as JSON, and a list of weights."""
        weights: list[np.ndarray] = []
        text = json.dumps(_describe(self, weights))
        write_archive(path, {"layers": np.frombuffer(text.encode(), np.uint8), "weights": weights})

    @classmethod
    def read(cls, path: Path) -> "NetworkArrays":
        """Map the weights of `scorer.npz`."""
        stored = read_arrays(path, ["layers"], ["weights"], mapped=True)
        try:
            return _restore(json.loads(stored["layers"].tobytes()), stored["weights"])
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"{path} must have layers of this version ({summarize_error(error)}). "
                "Fix: update keras_nplm, or train the model again."
            ) from error


_CLASSES = {
    kind.__name__: kind
    for kind in (NetworkArrays, TanhArrays, DeepArrays, BlockArrays, NormArrays, CopyArrays)
}


def _describe(value: Any, weights: list[np.ndarray]) -> Any:
    """Return a value as JSON, in which a weight is its number in the list."""
    if isinstance(value, np.ndarray):
        weights.append(value)
        return {"weight": len(weights) - 1}
    if isinstance(value, list):
        return [_describe(part, weights) for part in value]
    if dataclasses.is_dataclass(value):
        fields = {name: _describe(part, weights) for name, part in vars(value).items()}
        return {"class": type(value).__name__, **fields}
    return value


def _restore(described: Any, weights: list[np.ndarray]) -> Any:
    """Return the value that `_describe` was given."""
    if isinstance(described, list):
        return [_restore(part, weights) for part in described]
    if not isinstance(described, dict):
        return described
    if "weight" in described:
        return weights[described["weight"]]
    fields = {name: _restore(part, weights) for name, part in described.items()}
    return _CLASSES[fields.pop("class")](**fields)


def refuse_network(received: str) -> InputError:
    """Return the error of a network that has no form in NumPy."""
    return InputError(
        "`model` must be a network alone, with logits of all words and each layer in NumPy "
        "(`list_arrays`), for log Z and self-normalised scores. "
        f"Received: {received}. Fix: leave them out, or train one: "
        "`keras-nplm train --network context --no-interpolated`."
    )
