"""Energies v · tanh(z + t) of contexts z and words t, in little memory."""

import functools
from collections.abc import Callable

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor, attach_gradient

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

_WORDS = 640  # of a tile


def energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    """Return v_i · tanh(z_i + t_j) of contexts z [B, h] and a few words t [k, h], float [B, k],
    with a gradient.

    v is [B, h]. On TensorFlow XLA fuses the tanh and its gradient with their sums, which halves the
    time. Under tf.distribute XLA is not used.
    """
    if keras.backend.backend() != "tensorflow" or tf.distribute.has_strategy():
        return _energies(contexts, words, v)
    return _compile_energies()(*map(tf.convert_to_tensor, (contexts, words, v)))


def all_energies(
    contexts: Tensor, words: Tensor, v: Tensor, loop: bool = True, fused: bool = False
) -> Tensor:
    """Return v_i · tanh(z_i + t_j) of contexts z [B, h] and all words t [|V|, h], float [B, |V|].

    The hidden units of one context, [|V|, h], are in memory at a time, also for the gradient.
    Without `loop`, which some runtimes refuse, those of all contexts and 640 words. `fused` takes
    half the time, by XLA, which a server may lack.
    """
    if not loop:
        tiles = [words[first : first + _WORDS] for first in range(0, words.shape[0], _WORDS)]
        return ops.concatenate([_energies(contexts, tile, v) for tile in tiles], axis=1)
    if keras.backend.backend() != "tensorflow":
        return ops.map(lambda row: _energies(row[0][None], words, row[1][None])[0], (contexts, v))
    compute = energies if fused else _energies
    inputs = [contexts, words, v]
    contexts, words, v = map(tf.stop_gradient, inputs)  # no tape keeps their hidden units
    signature = tf.TensorSpec(words.shape[:1], contexts.dtype)
    result = tf.map_fn(
        lambda row: compute(row[0][None], words, row[1][None])[0],
        (contexts, v),
        fn_output_signature=signature,
    )
    return attach_gradient(_differentiate_energies, [result], inputs, [])[0]


def _differentiate_energies(
    upstream: list[Tensor], inputs: list[Tensor], saved: list[Tensor]
) -> list[Tensor]:
    (slopes,), (contexts, words, v) = upstream, inputs
    number = tf.shape(contexts)[0]

    def add(i: Tensor, d_words: Tensor, rows: tf.TensorArray) -> tuple:
        a = tf.tanh(contexts[i] + words)  # [|V|, h]
        slope = (1 - a * a) * slopes[i, :, None]
        d_v = tf.linalg.matvec(a, slopes[i], transpose_a=True)
        row = tf.stack([tf.reduce_sum(slope, axis=0) * v[i], d_v])
        return i + 1, d_words + slope * v[i], rows.write(i, row)

    rows = tf.TensorArray(v.dtype, number, element_shape=[2, v.shape[1]])
    start = 0, tf.zeros_like(words), rows
    _, d_words, rows = tf.while_loop(lambda i, *_: i < number, add, start, parallel_iterations=1)
    of_contexts = rows.stack()
    return [of_contexts[:, 0], d_words, of_contexts[:, 1]]


def _energies(contexts: Tensor, words: Tensor, v: Tensor) -> Tensor:
    a = ops.tanh(ops.expand_dims(contexts, 1) + words)  # [B, k, h]
    return ops.matmul(a, ops.expand_dims(v, -1))[:, :, 0]


@functools.cache
def _compile_energies() -> Callable:
    return tf.function(_energies, jit_compile=True, autograph=False)
