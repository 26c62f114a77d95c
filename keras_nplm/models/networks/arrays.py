"""The weights of a network in NumPy, made from a Keras network or read from its file."""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_nplm.io.errors import InputError


@dataclasses.dataclass(frozen=True)
class NetworkArrays:
    """The weights of a network, in float32, and what its layers compute in NumPy.

        x = [sum_{k in block j} scale_k C[w_k]],    a = transform(d + H x),    y = b + U a (+ W x)

    With an energy head y_w = b_w + v · tanh(d + H [x; C[w]]).

    Attributes:
        order: int, n.
        vocabulary_size: int, |V|.
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
        weigh_copies: the weights of a pointer as a function of features and contexts, or None.
    """

    order: int
    vocabulary_size: int
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
    weigh_copies: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None


def refuse_network(received: str) -> InputError:
    """Return the error of a network that has no form in NumPy."""
    return InputError(
        "`model` must be a network with a hidden layer of keras_nplm, and with logits of all "
        "words, for self-normalised scores. "
        f"Received: {received}. Fix: score without them, or train a network alone: "
        "`keras-nplm train --network context --no-interpolated`."
    )
