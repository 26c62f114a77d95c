"""v · tanh(z + t) for contexts z and words t: of a few words, of all, and ln Z over all, in little memory."""

import functools

import keras
from keras import ops

_CONTEXTS, _WORDS = 16, 640  # in a block, whose hidden units stay in cache
_CACHED = 1 << 17  # hidden units of one context at a time, where XLA does not fuse what is done to them
_MODERATE = 20.0  # |z| whose exponentials are far from overflow


def energies(contexts, words, v):
    """v · tanh(z_i + t_j) of every context i and of few words j, with its gradient.

    On TensorFlow XLA fuses the tanh and its gradient with their sums, in half the time. Where several devices train,
    XLA is left out.

    Args:
        contexts: float [B, h], z.
        words: float [k, h], t.
        v: float [h], or a row a context, [B, h].

    Returns:
        float [B, k].
    """
    if keras.backend.backend() != "tensorflow":
        return _energies(contexts, words, v)
    import tensorflow as tf

    return _unless_distributed(tf, _energies)(contexts, words, tf.convert_to_tensor(v))


def all_energies(contexts, words, v):
    """v · tanh(z_i + t_j) of every context i and of all words j, a context at a time.

    Hidden units [|V|, h] are there for one context alone, in the gradient, too, where they are computed again.

    Args:
        contexts: float [B, h], z.
        words: float [|V|, h], t.
        v: float [h].

    Returns:
        float [B, |V|].
    """
    if keras.backend.backend() != "tensorflow":
        return ops.map(lambda z: _energies(z[None], words, v)[0], contexts)
    import tensorflow as tf

    forward, backward = _context_by_context(*words.shape)

    @tf.custom_gradient
    def with_gradient(contexts, words, v):
        detached = map(tf.stop_gradient, (contexts, words, v))  # else an eager tape keeps [|V|, h] of every context
        return forward(*detached), lambda upstream: backward(contexts, words, v, upstream)

    return with_gradient(contexts, words, tf.convert_to_tensor(v))


def energy_log_normaliser(contexts, words, v, bias):
    """ln Z = ln sum_j exp(b_j + v · tanh(z_i + t_j)), float [B], without [B, |V|] logits; no gradient is meant.

        tanh(z + t) = 1 - 2 F / (F + E),    E = exp(2 t),    F = exp(-2 z)

    E is there once for all contexts and F once for all words, so that a hidden unit costs an addition and a division;
    XLA fuses these. Where E overflows or vanishes the quotient is right; tanh itself is taken where F might.

    Args:
        contexts: float [B, h], z.
        words: float [|V|, h], t.
        v: float [h].
        bias: float [|V|], b.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.map(lambda z: ops.logsumexp(_energies(z[None], words, v)[0] + bias), contexts)
    import tensorflow as tf

    v, bias, number = tf.convert_to_tensor(v), tf.convert_to_tensor(bias), tf.shape(contexts)[0]
    blocks = tf.pad(contexts, [[0, -number % _CONTEXTS], [0, 0]])
    blocks = tf.reshape(blocks, [-1, _CONTEXTS, contexts.shape[-1]])
    sizes = _tiles(words.shape[0], _WORDS)

    def over(function, contexts, words):
        of, tiles = _unless_distributed(tf, function), tf.split(words, sizes)

        def of_block(block):
            logits = tf.concat([of(block, tile, v) for tile in tiles], axis=1) + bias  # [16, |V|]
            return tf.reduce_logsumexp(logits, axis=1)

        return tf.map_fn(of_block, contexts)

    log_z = tf.cond(
        tf.reduce_all(tf.abs(contexts) < _MODERATE),  # false for NaN
        lambda: over(_energies_of_exponentials, tf.exp(-2 * blocks), tf.exp(2 * words)),
        lambda: over(_energies, blocks, words),
    )
    return tf.reshape(log_z, [-1])[:number]


def _energies(contexts, words, v):
    a = ops.tanh(ops.expand_dims(contexts, 1) + words)  # [B, k, h]
    return ops.matmul(a, ops.expand_dims(v, -1))[:, :, 0]


def _energies_of_exponentials(contexts, words, v):
    """The same of F and E."""
    contexts = ops.expand_dims(contexts, 1)
    return ops.sum(v) - 2 * ops.matmul(contexts / (contexts + words), ops.expand_dims(v, -1))[:, :, 0]


def _unless_distributed(tf, function):
    """`function`, fused by XLA where one device works."""
    return function if tf.distribute.has_strategy() else _fused(function)


def _tiles(size: int, most: int) -> list[int]:
    return [min(most, size - start) for start in range(0, size, most)]


@functools.cache
def _fused(function):
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


@functools.cache
def _context_by_context(size: int, units: int):
    """Graphs of the energies [B, |V|], and of the gradients by z [B, h], t [|V|, h] and v [h] from that by these."""
    import tensorflow as tf

    def forward(contexts, words, v):
        tiles = tf.split(words, _tiles(size, max(1, _CACHED // units)))

        def of(z):
            return tf.concat([_energies(z[None], tile, v)[0] for tile in tiles], axis=0)

        return tf.map_fn(of, contexts, fn_output_signature=tf.TensorSpec([size], tf.float32))

    def backward(contexts, words, v, upstream):
        def add(i, of_contexts, of_words, of_v):
            a = tf.tanh(words + contexts[i])  # [|V|, h]
            slope = (1 - tf.square(a)) * upstream[i, :, None]
            of_v += tf.linalg.matvec(a, upstream[i], transpose_a=True)
            return i + 1, of_contexts.write(i, tf.reduce_sum(slope, axis=0)), of_words + slope, of_v

        number = tf.shape(contexts)[0]
        start = tf.TensorArray(contexts.dtype, number, element_shape=[units])
        begin = 0, start, tf.zeros_like(words), tf.zeros_like(v)
        _, of_contexts, of_words, of_v = tf.while_loop(lambda i, *_: i < number, add, begin, parallel_iterations=1)
        return of_contexts.stack() * v, of_words * v, of_v

    of_some, of_all, of_units = (tf.TensorSpec(shape) for shape in ([None, units], [size, units], [units]))
    upstream = tf.TensorSpec([None, size])
    return (
        tf.function(forward, [of_some, of_all, of_units], autograph=False),
        tf.function(backward, [of_some, of_all, of_units, upstream], autograph=False),
    )
