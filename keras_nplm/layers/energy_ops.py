"""Energies v · tanh(z + t) of contexts z and words t, and their log Z, in little memory."""

import functools
from collections.abc import Callable

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor, attach_gradient

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

_CONTEXTS, _WORDS = 16, 640  # of a block, whose hidden units fit the cache
_CACHED = 1 << 17  # hidden units of a tile without XLA, which would fuse the operations on them
_MODERATE = 20.0  # |z| up to which exponentials cannot overflow


def energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and a few words t [k, h], float [B, k], with
    a gradient.

    v is [h], or one row per context, [B, h]. On TensorFlow XLA fuses the tanh and its gradient with
    their sums, which halves the time. Under tf.distribute XLA is not used.
    """
    if keras.backend.backend() != "tensorflow":
        return _energies(contexts, words, v)
    return _compile_unless_distributed(_energies)(contexts, words, tf.convert_to_tensor(v))


def all_energies(contexts: Tensor, words: Tensor, v: Tensor, loop: bool = True) -> Tensor:
    """Return v · tanh(z_i + t_j) of contexts z [B, h] and all words t [|V|, h], float [B, |V|],
    with a gradient.

    Only the hidden units of one context, [|V|, h], are in memory at a time. The gradient computes
    them again. Without `loop`, which some runtimes refuse, TensorFlow computes all contexts at
    once, tile by tile of words, [B, 640, h].
    """
    if keras.backend.backend() != "tensorflow":
        return ops.map(lambda z: _energies(z[None], words, v)[0], contexts)
    if not loop:
        tiles = tf.split(words, _tiles(words.shape[0], _WORDS))
        return tf.concat([_energies(contexts, tile, v) for tile in tiles], axis=1)
    inputs = [contexts, words, tf.convert_to_tensor(v)]
    # or an eager tape would keep [|V|, h] of every context
    detached, table, weights = map(tf.stop_gradient, inputs)
    tiles = tf.split(table, _tiles(table.shape[0], max(1, _CACHED // table.shape[1])))

    def compute_context(z: Tensor) -> Tensor:
        return tf.concat([_energies(z[None], tile, weights)[0] for tile in tiles], axis=0)

    output = tf.TensorSpec([table.shape[0]], table.dtype)
    result = tf.map_fn(compute_context, detached, fn_output_signature=output)
    return attach_gradient(_all_energies_gradient, [result], inputs, [])[0]


def _all_energies_gradient(
    upstream: list[Tensor], inputs: list[Tensor], saved: list[Tensor]
) -> list[Tensor]:
    of_energies = upstream[0]  # [B, |V|]
    contexts, words, v = inputs

    def add(i: Tensor, of_contexts: Tensor, of_words: Tensor, of_v: Tensor) -> tuple[Tensor, ...]:
        a = tf.tanh(words + contexts[i])  # [|V|, h]
        slope = (1 - tf.square(a)) * of_energies[i, :, None]
        of_v += tf.linalg.matvec(a, of_energies[i], transpose_a=True)
        return i + 1, of_contexts.write(i, tf.reduce_sum(slope, axis=0)), of_words + slope, of_v

    number = tf.shape(contexts)[0]
    start = tf.TensorArray(contexts.dtype, number, element_shape=[contexts.shape[1]])
    begin = 0, start, tf.zeros_like(words), tf.zeros_like(v)
    _, of_contexts, of_words, of_v = tf.while_loop(
        lambda i, *_: i < number, add, begin, parallel_iterations=1
    )
    return [of_contexts.stack() * v, of_words * v, of_v]


def energy_log_normaliser(contexts: Tensor, words: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Return log Z of the energies, without storing [B, |V|] logits. For evaluation only.

        ln Z = ln sum_j exp(b_j + v · tanh(z_i + t_j))
        tanh(z + t) = 1 - 2 F / (F + E),    E = exp(2 t),    F = exp(-2 z)

    E is computed once for all contexts, F once for all words. So a hidden unit costs an addition
    and a division, which XLA fuses. The quotient is right even if E overflows or underflows. If F
    might, tanh itself is computed.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.map(lambda z: ops.logsumexp(_energies(z[None], words, v)[0] + bias), contexts)
    v = tf.convert_to_tensor(v)
    bias = tf.convert_to_tensor(bias)
    number = tf.shape(contexts)[0]
    blocks = tf.pad(contexts, [[0, -number % _CONTEXTS], [0, 0]])
    blocks = tf.reshape(blocks, [-1, _CONTEXTS, contexts.shape[-1]])
    sizes = _tiles(words.shape[0], _WORDS)

    def compute_with(function: Callable, contexts: Tensor, words: Tensor) -> Tensor:
        compiled = _compile_unless_distributed(function)
        tiles = tf.split(words, sizes)

        def compute_block(block: Tensor) -> Tensor:
            # [16, |V|]
            logits = tf.concat([compiled(block, tile, v) for tile in tiles], axis=1) + bias
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
    return (
        ops.sum(v) - 2 * ops.matmul(contexts / (contexts + words), ops.expand_dims(v, -1))[:, :, 0]
    )


def _compile_unless_distributed(function: Callable) -> Callable:
    return function if tf.distribute.has_strategy() else _fused(function)


def _tiles(size: int, most: int) -> list[int]:
    return [min(most, size - start) for start in range(0, size, most)]


@functools.cache
def _fused(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)
