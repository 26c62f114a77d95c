"""The layers of a network in NumPy, without Keras, whose import takes seconds.

A few contexts cost microseconds here, where a graph costs milliseconds. The layers give their
weights to these classes: see `ConfiguredLayer.list_arrays`. `scorer.npz` names a class
and its fields: see `NetworkArrays`.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_nplm.data.ids import BOS_ID, PAD_ID

_LOWEST = -80.0  # exp of its negative is finite in float32
LEAST = 1e-37  # about the least normal number of float32


def convert_to_float32(weight: Any) -> np.ndarray:
    """Return a copy of a weight."""
    return np.array(weight, np.float32)


# Context


def list_position_spans(
    context_size: int, averages_after: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the block of m components of x of each context position, int [n-1], and its scale.

    `averages_after`: as in `AveragedContext`. Without it each position has a block of its own.
    """
    if not averages_after:
        return np.arange(context_size), np.ones(context_size, np.float32)
    near = averages_after[0]
    lengths = np.diff(list_edges(context_size, averages_after))
    spans = len(lengths)
    block = np.concatenate([np.repeat(np.arange(spans), lengths), spans + np.arange(near)])
    scale = np.concatenate([np.repeat(lengths**-0.5, lengths), np.ones(near)])
    return block, scale.astype(np.float32)


def list_edges(context_size: int, averages_after: Sequence[int]) -> np.ndarray:
    """Return the place of the first word of each averaged span, and that of the near words."""
    near, *others = averages_after
    return context_size - np.array([context_size, *reversed(others), near])


# Hidden layers


@dataclasses.dataclass(frozen=True)
class NormArrays:
    """The weights of a layer normalisation."""

    gamma: np.ndarray
    beta: np.ndarray
    epsilon: float


@dataclasses.dataclass(frozen=True)
class BlockArrays:
    """The weights of a residual block."""

    norm: NormArrays | None
    H: np.ndarray
    d: np.ndarray


@dataclasses.dataclass(frozen=True)
class TanhArrays:
    """What follows z = d + H x in a `TanhHidden`."""

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Return tanh(z), in place."""
        return np.tanh(z, out=z)


@dataclasses.dataclass(frozen=True)
class DeepArrays:
    """What follows z = d + H x in a `DeepHidden`."""

    activation: str
    blocks: Sequence[BlockArrays]
    norm: NormArrays | None

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """Return the features, float32 [B, h]; it may write to z."""
        activate = _ACTIVATIONS[self.activation]
        a = activate(z)
        for block in self.blocks:
            a = a + activate(_normalise(block.norm, a) @ block.H + block.d)
        return _normalise(self.norm, a)


def _normalise(norm: NormArrays | None, a: np.ndarray) -> np.ndarray:
    if norm is None:
        return a
    # sums, as a product may warn of numbers that it does not use
    units = np.float32(len(norm.gamma))
    centred = a - np.add.reduce(a, axis=1, keepdims=True) / units
    variance = np.add.reduce(centred * centred, axis=1, keepdims=True) / units
    return centred / np.sqrt(variance + norm.epsilon) * norm.gamma + norm.beta


def _relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0, out=z)


def _gelu(z: np.ndarray) -> np.ndarray:
    return 0.5 * z * (1 + np.tanh(z * (0.79788456 + 0.035677408 * z * z)))


def _silu(z: np.ndarray) -> np.ndarray:
    return z / (1 + np.exp(-np.maximum(z, _LOWEST)))


_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": TanhArrays(),
    "relu": _relu,
    "gelu": _gelu,
    "silu": _silu,
}


# Pointer


@dataclasses.dataclass(frozen=True)
class CopyArrays:
    """The weights of a `Pointer`."""

    Q: np.ndarray
    R: np.ndarray
    v: np.ndarray
    u: np.ndarray
    r: np.ndarray

    def __call__(
        self, words: np.ndarray, features: np.ndarray, context_ids: np.ndarray
    ) -> np.ndarray:
        """Return the weights a of the words of contexts, float32 [B, n-1].

        `words` is C, with zeros for `<pad>`.
        """
        vectors = words[context_ids]
        z = self.u + np.matmul(vectors, (self.v + features @ self.Q)[:, :, None])[:, :, 0]
        z[:, 1:] += np.matmul(vectors[:, :-1], (features @ self.R)[:, :, None])[:, :, 0]
        first = len(self.r)
        matched = np.ones((1, 1), bool)
        for k, score in enumerate(self.r, start=1):
            matched = matched & (context_ids[:, first - k : -k] == context_ids[:, -k, None])
            z[:, first:] += score * matched
        is_copied = (context_ids != PAD_ID) & (context_ids != BOS_ID)
        return is_copied / (1 + np.exp(-np.maximum(z, _LOWEST)))
