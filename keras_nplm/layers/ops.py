"""The operations that carry the cost, where TensorFlow does better than `keras.ops`: rows of a matrix, and ln Z."""

import keras
from keras import ops

_CACHED = 1 << 18  # numbers in a tile of logits: 1 MiB, within the cache of a core
_WHOLE = 1 << 22  # numbers of logits that are not cut: to put together the gradient of U would cost more
_LEAST = 512  # columns of a tile: fewer would not repay a matrix product
_MOST = 64  # tiles


def rows(variable: keras.Variable, ids):
    """variable[ids], of a weight made with `autocast=False`.

    On TensorFlow neither the look-up nor its gradient touches another row: the gradient is `tf.IndexedSlices`. Ids
    outside the matrix are moved inside: the caller answers for them.

    Args:
        variable: a weight [V, …].
        ids: int, any shape.

    Returns:
        [*ids.shape, …].
    """
    ids = ops.clip(ids, 0, variable.shape[0] - 1)
    if keras.backend.backend() != "tensorflow":
        return ops.take(variable, ids, axis=0)
    import tensorflow as tf

    return tf.gather(variable.value, ids)  # of the variable itself: reading it first would copy it whole


def linear_softmax(features, kernel, bias, target_ids, dtype, expected=None):
    """ln Z and the logits of the targets of the softmax of y = b + U f, as training wants them.

        ln Z = ln sum_i exp(b_i + U_i f),    y_t = b_t + U_t f,    y_q = sum_i q_i (b_i + U_i f)

    Forward and backward together are three matrix products and one exponential for each logit. The logits are made in
    tiles of words that stay in cache; sum_i exp(y_i) and sum_i exp(y_i) U_i are taken from a tile at once, and
    the exponentials alone are kept, for the gradient of U: no second pass over [B, |V|]. Exponentials are taken without
    subtracting the greatest logit first; if that overflows or underflows anywhere, all is done again with it
    subtracted.

    Args:
        features: float [B, w], f.
        kernel: weight U, [V, w].
        bias: weight b, [V].
        target_ids: int [B], in the vocabulary.
        dtype: of the matrix products; sums, exponentials and results are float32.
        expected: float [V], q; or None, and y_q is 0.

    Returns:
        (ln Z, y_t, y_q), float32 [B] each.
    """
    if keras.backend.backend() != "tensorflow":
        logits = ops.cast(ops.matmul(features, ops.transpose(ops.cast(kernel, features.dtype))), "float32") + bias
        chosen = ops.take_along_axis(logits, ops.expand_dims(target_ids, -1), axis=-1)[:, 0]
        mean = ops.zeros_like(chosen) if expected is None else ops.matmul(logits, expected)
        return ops.logsumexp(logits, axis=-1), chosen, mean
    import tensorflow as tf

    def softmax(features, kernel, bias):
        return _tiled_softmax(tf, features, kernel, bias, target_ids, dtype, expected)

    return tf.custom_gradient(softmax)(features, tf.convert_to_tensor(kernel.value), tf.convert_to_tensor(bias.value))


def linear_log_prob(features, kernel, bias, target_ids, which=None):
    """ln P(target | context) = y_t - ln Z of the softmax of y = b + U f, without [B, V] logits; no gradient is meant.

    Args:
        features: float32 [B, w], f.
        kernel: weight U, [V, w].
        bias: weight b, [V].
        target_ids: int [T], in the vocabulary.
        which: int [T], the row of the features that is the context of each target; None: target i has row i.

    Returns:
        float32 [T].
    """
    log_z = log_normaliser(features, kernel, bias)
    if which is not None:
        features, log_z = ops.take(features, which, axis=0), ops.take(log_z, which)
    return linear_logit(features, kernel, bias, target_ids) - log_z


def linear_logit(features, kernel, bias, target_ids):
    """y of the targets alone, b_t + U_t f, float [B], from the rows of the targets."""
    return ops.sum(features * rows(kernel, target_ids), axis=-1) + rows(bias, target_ids)


def log_normaliser(features, kernel, bias):
    """ln Z = ln sum_i exp(b_i + U_i f), float32 [B], without [B, V] logits; no gradient is meant.

    Args:
        features: float32 [B, w], f.
        kernel: weight U, [V, w].
        bias: weight b, [V].
    """
    if keras.backend.backend() != "tensorflow":
        return ops.logsumexp(ops.matmul(features, ops.transpose(kernel)) + bias, axis=-1)
    import tensorflow as tf

    kernel, bias = tf.convert_to_tensor(kernel.value), tf.convert_to_tensor(bias.value)
    sizes = _tiles(features, kernel)
    tiles = list(zip(tf.split(kernel, sizes), tf.split(bias, sizes), strict=True))
    sums = []
    for table, offset in tiles:
        with tf.control_dependencies(sums[-1:]):
            logits = _logits(tf, features, table, offset)
        sums.append(tf.reduce_sum(tf.exp(logits), axis=-1))
    z = tf.add_n(sums)

    def shifted():
        return tf.reduce_logsumexp(
            tf.stack([tf.reduce_logsumexp(_logits(tf, features, *t), axis=-1) for t in tiles]), 0
        )

    return tf.cond(_in_range(tf, z), lambda: tf.math.log(z), shifted)


def log_sum_exp(logits):
    """ln sum_i exp(y_i) of each row of TensorFlow logits, float32 [B]: without looking for the greatest, if none is
    so great or small that it must be subtracted first; no gradient is meant.
    """
    import tensorflow as tf

    z = tf.reduce_sum(tf.exp(logits), axis=-1)
    return tf.cond(_in_range(tf, z), lambda: tf.math.log(z), lambda: tf.reduce_logsumexp(logits, axis=-1))


def _tiled_softmax(tf, features, kernel, bias, target_ids, dtype, expected):
    """The value of `linear_softmax` and its gradient, for TensorFlow."""
    given, low, table = features.dtype, tf.cast(features, dtype), tf.cast(kernel, dtype)
    features = tf.cast(features, tf.float32)
    sizes = _tiles(features, kernel)
    tables, biases = tf.split(table, sizes), tf.split(bias, sizes)

    def exponentials(shift):
        tiles, z, weighted = [], [], []
        for table, bias in zip(tables, biases, strict=True):
            with tf.control_dependencies(z[-1:] + weighted[-1:]):  # tile by tile, while each is in cache
                logits = _logits(tf, low, table, bias)
            tile = tf.exp(logits if shift is None else logits - shift)  # [B, tile]
            z.append(tf.reduce_sum(tile, axis=-1, keepdims=True))
            tiles.append(tf.cast(tile, dtype))
            weighted.append(tf.cast(tf.matmul(tiles[-1], table), tf.float32))  # [B, w]
        return tf.add_n(z), tf.add_n(weighted), tiles

    def shifted():
        logits = [_logits(tf, low, table, bias) for table, bias in zip(tables, biases, strict=True)]
        greatest = [tf.reduce_max(tile, axis=-1, keepdims=True) for tile in logits]
        shift = tf.reduce_max(tf.concat(greatest, axis=-1), axis=-1, keepdims=True)
        return *exponentials(shift), shift

    plain = exponentials(None)
    z, weighted, tiles, shift = tf.cond(_in_range(tf, plain[0]), lambda: (*plain, tf.zeros_like(plain[0])), shifted)
    target_rows = tf.gather(kernel, target_ids)  # [B, w]
    target_logit = tf.reduce_sum(features * target_rows, axis=-1) + tf.gather(bias, target_ids)
    mean_row = None if expected is None else tf.linalg.matvec(kernel, expected, transpose_a=True)  # [w]
    mean_logit = tf.zeros_like(target_logit)
    if expected is not None:
        mean_logit = tf.linalg.matvec(features, mean_row) + tf.tensordot(bias, expected, 1)

    def gradient(d_log_z, d_target, d_mean):
        share = d_log_z[:, None] / z  # [B, 1]
        d_features = share * weighted + d_target[:, None] * target_rows
        scaled = tf.cast(features * share, dtype)
        if len(tiles) == 1:
            d_kernel = tf.cast(tf.matmul(tiles[0], scaled, transpose_a=True), tf.float32)
            d_bias = tf.cast(tf.matmul(tf.cast(share, dtype), tiles[0], transpose_a=True)[0], tf.float32)
        else:  # [w+1, tile], b's row last, transposed after: a product that turns the small matrix round, not the large
            scaled = tf.concat([scaled, tf.cast(share, dtype)], axis=-1)
            products = [tf.matmul(scaled, tile, transpose_a=True) for tile in tiles]
            d_kernel = tf.cast(tf.concat([tf.transpose(product[:-1]) for product in products], axis=0), tf.float32)
            d_bias = tf.cast(tf.concat([product[-1] for product in products], axis=0), tf.float32)
        if expected is not None:
            d_features += d_mean[:, None] * mean_row
            d_kernel += expected[:, None] * tf.reduce_sum(d_mean[:, None] * features, axis=0)
            d_bias += expected * tf.reduce_sum(d_mean)
        d_kernel = tf.tensor_scatter_nd_add(d_kernel, target_ids[:, None], d_target[:, None] * features)
        d_bias = tf.tensor_scatter_nd_add(d_bias, target_ids[:, None], d_target)
        return tf.cast(d_features, given), d_kernel, d_bias

    return (tf.math.log(z[:, 0]) + shift[:, 0], target_logit, mean_logit), gradient


def _logits(tf, features, kernel, bias):
    return tf.nn.bias_add(tf.cast(tf.matmul(features, kernel, transpose_b=True), tf.float32), bias)


def _in_range(tf, z):
    """Whether sums of exponentials neither overflowed nor lost what counts; false for NaN."""
    return tf.reduce_all((z > 1e-30) & (z < 1e30))


def _tiles(features, kernel) -> list[int]:
    """How many rows of a kernel make a tile, so that its logits stay in cache."""
    size, batch = kernel.shape[0], features.shape[0] or _CACHED // _LEAST
    if size * batch <= _WHOLE:
        return [size]
    tile = max(_LEAST, _CACHED // max(1, batch), -(-size // _MOST))
    tile += -tile % 16  # whole vectors
    return [min(tile, size - start) for start in range(0, size, tile)]


def penalty(weight_decay: float) -> keras.regularizers.Regularizer | None:
    """The penalty λ/2 |θ|², whose gradient is λ θ: the paper's weight decay of strength λ. None where λ is 0."""
    return keras.regularizers.L2(weight_decay / 2) if weight_decay else None
