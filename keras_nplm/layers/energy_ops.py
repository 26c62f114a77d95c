"""Energies v · tanh(z + t) of contexts z and words t, and their log Z, in little memory."""

import functools
from collections.abc import Callable

import tensorflow as tf
from keras import ops

from keras_nplm.layers.ops import Tensor

_CONTEXTS, _WORDS = 16, 640  # of a block, whose hidden units fit the cache
_MODERATE = 20.0  # |z| up to which exponentials cannot overflow


def energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and a few words t [k, h], float [B, k], with a gradient.

    v is [h], or one row per context, [B, h]. XLA fuses the tanh and its gradient with their sums, which
    halves the time. Under tf.distribute XLA is not used.
    """
    return _compile_unless_distributed(_energies)(contexts, words, tf.convert_to_tensor(v))


def all_energies(contexts: Tensor, words: Tensor, v: Tensor, loop: bool = True) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and all words t [|V|, h], float [B, |V|].

    Only the hidden units of one context and a tile of words, [640, h], are in memory at a time. Without `loop`, which
    some runtimes refuse, TensorFlow computes all contexts at once, [B, 640, h].
    """
    tiles = tf.split(words, _tiles(words.shape[0], _WORDS))

    def compute(contexts: Tensor) -> Tensor:
        return tf.concat([_energies(contexts, tile, v) for tile in tiles], axis=1)

    if not loop:
        return compute(contexts)
    output = tf.TensorSpec([words.shape[0]], words.dtype)
    return tf.map_fn(lambda z: compute(z[None])[0], contexts, fn_output_signature=output)


def energy_log_normaliser(contexts: Tensor, words: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Return log Z of the energies, without storing [B, |V|] logits. For evaluation only.

        ln Z = ln sum_j exp(b_j + v · tanh(z_i + t_j))
        tanh(z + t) = 1 - 2 F / (F + E),    E = exp(2 t),    F = exp(-2 z)

    E is computed once for all contexts, F once for all words. So a hidden unit costs an addition and a division, which
    XLA fuses. The quotient is right even if E overflows or underflows. If F might, tanh itself is computed.
    """
    v, bias, number = tf.convert_to_tensor(v), tf.convert_to_tensor(bias), tf.shape(contexts)[0]
    blocks = tf.pad(contexts, [[0, -number % _CONTEXTS], [0, 0]])
    blocks = tf.reshape(blocks, [-1, _CONTEXTS, contexts.shape[-1]])
    sizes = _tiles(words.shape[0], _WORDS)

    def compute_with(function: Callable, contexts: Tensor, words: Tensor) -> Tensor:
        compiled, tiles = _compile_unless_distributed(function), tf.split(words, sizes)

        def compute_block(block: Tensor) -> Tensor:
            logits = tf.concat([compiled(block, tile, v) for tile in tiles], axis=1) + bias  # [16, |V|]
            return tf.reduce_logsumexp(logits, axis=1)

        return tf.map_fn(compute_block, contexts)

    log_z = tf.cond(
        tf.reduce_all(tf.abs(contexts) < _MODERATE),  # false for NaN
        lambda: compute_with(_energies_of_exponentials, tf.exp(-2 * blocks), tf.exp(2 * words)),
        lambda: compute_with(_energies, blocks, words),
    )
    return tf.reshape(log_z, [-1])[:number]


def _energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    a = ops.tanh(ops.expand_dims(contexts, 1) + words)  # [B, k, h]
    return ops.matmul(a, ops.expand_dims(v, -1))[:, :, 0]


def _energies_of_exponentials(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    contexts = ops.expand_dims(contexts, 1)
    return ops.sum(v) - 2 * ops.matmul(contexts / (contexts + words), ops.expand_dims(v, -1))[:, :, 0]


def _compile_unless_distributed(function: Callable) -> Callable:
    return function if tf.distribute.has_strategy() else _fused(function)


def _tiles(size: int, most: int) -> list[int]:
    return [min(most, size - start) for start in range(0, size, most)]


@functools.cache
def _fused(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)
