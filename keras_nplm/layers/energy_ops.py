"""Energies v · tanh(z + t) of contexts z and words t, and their log Z, in little memory."""

import functools
from collections.abc import Callable

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

_WORDS = 640  # of a tile
_MODERATE = 20.0  # |z| up to which exponentials cannot overflow


def energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and a few words t [k, h], float [B, k], with
    a gradient.

    v is [h], or one row per context, [B, h]. On TensorFlow XLA fuses the tanh and its gradient with
    their sums, which halves the time. Under tf.distribute XLA is not used.
    """
    return _fuse(_energies, contexts, words, v)


def all_energies(contexts: Tensor, words: Tensor, v: Tensor, loop: bool = True) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and all words t [|V|, h], float [B, |V|].

    The hidden units of one context, [|V|, h], are in memory at a time; for a gradient those of all
    contexts. Without `loop`, which some runtimes refuse, those of all contexts and 640 words.
    """
    if loop:
        return _map(lambda z: _energies(z[None], words, v)[0], contexts, words.shape[:1])
    tiles = [words[first : first + _WORDS] for first in range(0, words.shape[0], _WORDS)]
    return ops.concatenate([_energies(contexts, tile, v) for tile in tiles], axis=1)


def energy_log_normaliser(contexts: Tensor, words: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Return log Z of the energies, one context at a time. For evaluation only.

        ln Z = ln sum_j exp(b_j + v · tanh(z_i + t_j))
        tanh(z + t) = 1 - 2 F / (F + E),    E = exp(2 t),    F = exp(-2 z)

    E is computed once for all contexts, F once for all words. So a hidden unit costs an addition
    and a division, which XLA fuses. The quotient is right even if E overflows or underflows. If F
    might, tanh itself is computed.
    """

    def compute_with(function: Callable, contexts: Tensor, words: Tensor) -> Tensor:
        return _map(
            lambda z: ops.logsumexp(_fuse(function, z[None], words, v)[0] + bias), contexts, ()
        )

    if keras.backend.backend() != "tensorflow":
        return compute_with(_energies, contexts, words)
    return tf.cond(
        tf.reduce_all(tf.abs(contexts) < _MODERATE),  # false for NaN
        lambda: compute_with(_divide_exponentials, tf.exp(-2 * contexts), tf.exp(2 * words)),
        lambda: compute_with(_energies, contexts, words),
    )


def _energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    a = ops.tanh(ops.expand_dims(contexts, 1) + words)  # [B, k, h]
    return ops.matmul(a, ops.expand_dims(v, -1))[:, :, 0]


def _divide_exponentials(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    quotients = contexts[:, None] / (contexts[:, None] + words)
    return tf.reduce_sum(v) - 2 * tf.linalg.matvec(quotients, v)


def _map(function: Callable, contexts: Tensor, shape: tuple) -> Tensor:
    """Return a function of each context, float [B, *shape]."""
    if keras.backend.backend() != "tensorflow":
        return ops.map(function, contexts)
    # `ops.map` computes the first one to see the shape, and there may be none
    signature = tf.TensorSpec(shape, contexts.dtype)
    return tf.map_fn(function, contexts, fn_output_signature=signature)


def _fuse(function: Callable, *arguments: Tensor) -> Tensor:
    """Return what a function computes: on TensorFlow fused by XLA, but not under tf.distribute."""
    if keras.backend.backend() != "tensorflow" or tf.distribute.has_strategy():
        return function(*arguments)
    return _compile(function)(*map(tf.convert_to_tensor, arguments))


@functools.cache
def _compile(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)
