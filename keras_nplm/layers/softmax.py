"""Softmax of linear outputs in tiles of words, log Z and the losses of negative samples, with their
gradients.
"""

from collections.abc import Sequence

import keras
from keras import ops

from keras_nplm.layers.ops import Tensor, attach_gradient

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

CACHED = 1 << 18  # logits in a tile: 1 MiB, within the cache of a core
# logits in one tile at most: for fewer, joining the gradients of tiles costs more than it saves
WHOLE = 1 << 22
_LEAST = 512  # words of a tile at least: a matrix product with fewer is slow
_MOST = 64  # tiles at most
_FACTORS = 16  # numbers that are multiplied before one logarithm is taken


def linear_softmax(
    features: Tensor,
    kernels: Sequence[Tensor],
    bias: Tensor,
    target_ids: Tensor,
    dtype: str | keras.DTypePolicy | None,
) -> tuple[Tensor, Tensor]:
    """Return log Z and the target logits of a linear softmax, with a gradient for training, in
    tiles of words.

        ln Z = ln sum_i exp(b_i + K_i f),    y_t = b_t + K_t f

    Forward and backward pass together take three matrix products, and one exponential per logit.
    Logits are computed in tiles of words that fit the cache: the sums of exp(y_i) and of exp(y_i)
    K_i at once. Only the exponentials are kept, for the gradient of K. The greatest logit is
    subtracted only if a sum overflows or underflows without.

    Features f are [B, w], the targets int [B] in range. K has one or more kernels as blocks of its
    columns, [V, w_i] each: to join them would copy K, and its gradient again. `dtype` is that of
    the matrix products. The results are [B] each, of at least float32.
    """
    if keras.backend.backend() != "tensorflow":
        kernel = ops.concatenate([ops.cast(block, features.dtype) for block in kernels], axis=1)
        logits = ops.cast(ops.matmul(features, ops.transpose(kernel)), "float32") + bias
        chosen = ops.take_along_axis(logits, ops.expand_dims(target_ids, -1), axis=-1)[:, 0]
        return ops.logsumexp(logits, axis=-1), chosen
    kernels = [_as_tensor(kernel) for kernel in kernels]
    bias = _as_tensor(bias)
    wide = tf.float64 if kernels[0].dtype == tf.float64 else tf.float32
    inputs = [features, *kernels, bias]
    low = _split_columns(tf.cast(features, dtype), kernels)
    features = tf.cast(features, wide)
    bias = tf.cast(bias, wide)
    sizes = _tiles(features, kernels[0])
    blocks = [tf.split(tf.cast(kernel, dtype), sizes) for kernel in kernels]
    # of each tile: its rows of all kernels
    tables = list(zip(*blocks, strict=True))
    biases = tf.split(bias, sizes)

    def exponentials(shift: Tensor | None) -> tuple[Tensor, Tensor, list[Tensor]]:
        tiles: list[Tensor] = []
        z: list[Tensor] = []
        weighted: list[Tensor] = []
        for table, bias in zip(tables, biases, strict=True):
            # one tile after the other, while each is in cache
            with tf.control_dependencies(z[-1:] + weighted[-1:]):
                logits = _logits(low, table, bias)
            tile = tf.exp(logits if shift is None else logits - shift)  # [B, tile]
            z.append(tf.reduce_sum(tile, axis=-1, keepdims=True))
            tiles.append(tf.cast(tile, dtype))
            products = [tf.matmul(tiles[-1], block) for block in table]
            weighted.append(tf.cast(tf.concat(products, axis=-1), wide))  # [B, w]
        return tf.add_n(z), tf.add_n(weighted), tiles

    def shifted() -> Tensor:
        logits = [_logits(low, table, bias) for table, bias in zip(tables, biases, strict=True)]
        greatest = [tf.reduce_max(tile, axis=-1, keepdims=True) for tile in logits]
        shift = tf.reduce_max(tf.concat(greatest, axis=-1), axis=-1, keepdims=True)
        return *exponentials(shift), shift

    plain = exponentials(None)
    z, weighted, tiles, shift = tf.cond(
        _in_range(plain[0]), lambda: (*plain, tf.zeros_like(plain[0])), shifted
    )
    rows = [tf.gather(kernel, target_ids) for kernel in kernels]
    target_rows = tf.cast(tf.concat(rows, axis=-1), wide)  # [B, w]
    target_logit = tf.reduce_sum(features * target_rows, axis=-1) + tf.gather(bias, target_ids)
    results = [tf.math.log(z[:, 0]) + shift[:, 0], target_logit]
    saved = [z, weighted, target_ids, target_rows, *tiles]
    return attach_gradient(_softmax_gradient, results, inputs, saved)


def _softmax_gradient(
    upstream: list[Tensor], inputs: list[Tensor], saved: list[Tensor]
) -> list[Tensor]:
    (d_log_z, d_target), (z, weighted, target_ids, target_rows, *tiles) = upstream, saved
    features, *kernels, _ = inputs
    dtype = tiles[0].dtype
    wide = z.dtype
    features = tf.cast(features, wide)
    share = d_log_z[:, None] / z  # [B, 1]
    d_features = share * weighted + d_target[:, None] * target_rows
    # the targets are added to the few rows of [B, V], not to the many of K
    if _is_small(features) and len(tiles) == 1:
        places = tf.stack([tf.range(tf.size(target_ids)), target_ids], axis=1)
        d_logits = tf.tensor_scatter_nd_add(
            tiles[0] * tf.cast(share, dtype), places, tf.cast(d_target, dtype)
        )
        blocks = _split_columns(tf.cast(features, dtype), kernels)
        d_kernels = [tf.cast(tf.matmul(d_logits, f, transpose_a=True), wide) for f in blocks]
        d_bias = tf.reduce_sum(tf.cast(d_logits, wide), axis=0)
    else:
        # [w+1, tile], the row of b last. The small matrix is transposed afterwards, not the large
        # one before
        scaled = tf.concat([tf.cast(features * share, dtype), tf.cast(share, dtype)], axis=-1)
        products = [tf.matmul(scaled, tile, transpose_a=True) for tile in tiles]
        d_bias = tf.cast(tf.concat([product[-1] for product in products], axis=0), wide)
        d_bias = tf.tensor_scatter_nd_add(d_bias, target_ids[:, None], d_target)
        d_kernels = []
        start = 0
        for block in _split_columns(d_target[:, None] * features, kernels):
            end = start + block.shape[1]
            parts = [tf.transpose(product[start:end]) for product in products]
            d_kernel = tf.cast(tf.concat(parts, axis=0), wide)
            if end > start:  # an empty array takes no updates
                d_kernel = tf.tensor_scatter_nd_add(d_kernel, target_ids[:, None], block)
            d_kernels.append(d_kernel)
            start = end
    gradients = [d_features, *d_kernels, d_bias]
    return [tf.cast(gradient, x.dtype) for gradient, x in zip(gradients, inputs, strict=True)]


def _split_columns(features: Tensor, kernels: Sequence[Tensor]) -> list[Tensor]:
    """Return the features of each kernel, [B, w_i]."""
    return tf.split(features, [kernel.shape[1] for kernel in kernels], axis=-1)


def log_normaliser(features: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Return ln Z of a linear softmax, float [B], without storing [B, V] logits.

    For evaluation only.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.logsumexp(ops.matmul(features, ops.transpose(kernel)) + bias, axis=-1)
    kernel = tf.cast(_as_tensor(kernel), features.dtype)
    bias = tf.cast(_as_tensor(bias), features.dtype)
    sizes = _tiles(features, kernel)
    tiles = list(zip(tf.split(kernel, sizes), tf.split(bias, sizes), strict=True))
    sums: list[Tensor] = []
    for table, offset in tiles:
        with tf.control_dependencies(sums[-1:]):
            logits = _logits([features], [table], offset)
        sums.append(tf.reduce_sum(tf.exp(logits), axis=-1))
    z = tf.add_n(sums)

    def shifted() -> Tensor:
        return tf.reduce_logsumexp(
            tf.stack([tf.reduce_logsumexp(_logits([features], [t], o), axis=-1) for t, o in tiles]),
            0,
        )

    return tf.cond(_in_range(z), lambda: tf.math.log(z), shifted)


def noise_loss(logits: Tensor, self_normalisation: float = 0.0) -> Tensor:
    """Return the loss of the negative samples in noise-contrastive estimation, float [B], with a
    gradient for training.

        loss = -sum_j ln σ(-s_j) + α (ln Z)²,    Z = sum_j exp(s_j)
        d loss / d s_j = σ(s_j) + 2 α ln Z exp(s_j) / Z,    σ(s) = exp(s) / (1 + exp(s))

    All of it comes from one exponential per logit, unless a sum of them overflows or underflows.
    """
    if keras.backend.backend() != "tensorflow":
        log_z = ops.logsumexp(logits, axis=-1)
        return ops.sum(ops.softplus(logits), axis=-1) + self_normalisation * ops.square(log_z)
    power = tf.exp(logits)
    z = tf.reduce_sum(power, axis=-1)

    def plain() -> tuple[Tensor, ...]:
        one = 1 + power
        return _sum_logs(one), power / one, tf.math.log(z), power, z

    def stable() -> tuple[Tensor, ...]:
        softplus = tf.reduce_sum(tf.math.softplus(logits), axis=-1)
        log_z = tf.reduce_logsumexp(logits, axis=-1)
        return softplus, tf.sigmoid(logits), log_z, tf.exp(logits - log_z[:, None]), tf.ones_like(z)

    loss, *saved, log_z, weight, total = tf.cond(_in_range(z, greatest=1e3), plain, stable)
    if self_normalisation:
        loss += self_normalisation * tf.square(log_z)
        saved += [weight, 2 * self_normalisation * log_z / total]
    return attach_gradient(_noise_gradient, [loss], [logits], saved)[0]


def _noise_gradient(
    upstream: list[Tensor], inputs: list[Tensor], saved: list[Tensor]
) -> list[Tensor]:
    slope = saved[0]  # σ
    if len(saved) > 1:
        slope += saved[1] * saved[2][:, None]
    return [slope * upstream[0][:, None]]


def _as_tensor(weight: keras.Variable | Tensor) -> Tensor:
    return tf.convert_to_tensor(weight.value if isinstance(weight, keras.Variable) else weight)


def _logits(features: Sequence[Tensor], kernels: Sequence[Tensor], bias: Tensor) -> Tensor:
    products = [
        # the smaller matrix is transposed: of a few rows the logits, of many the kernel
        tf.transpose(tf.matmul(kernel, block, transpose_b=True))
        if _is_small(block)
        else tf.matmul(block, kernel, transpose_b=True)
        for block, kernel in zip(features, kernels, strict=True)
    ]
    # the sum is as wide as the bias
    return tf.nn.bias_add(tf.add_n([tf.cast(product, bias.dtype) for product in products]), bias)


def _is_small(features: Tensor) -> bool:
    """Return whether features [B, w] have no more rows than columns."""
    batch, width = features.shape
    return batch is not None and batch <= width


def _in_range(z: Tensor, greatest: float = 1e30) -> Tensor:
    """Return whether no sum of exponentials overflowed or underflowed. False for NaN."""
    return tf.reduce_all((z > 1e-30) & (z < greatest))


def _sum_logs(factors: Tensor) -> Tensor:
    """Return the sum of logarithms of each row of factors >= 1, whose sum of (factor - 1) is at
    most 1000.

    One logarithm is taken of 16 of them, whose product is at most (1 + 1000/16)^16 < 1e29.
    """
    size = factors.shape[1]
    if size % _FACTORS == 0:
        factors = tf.reduce_prod(tf.reshape(factors, [-1, _FACTORS, size // _FACTORS]), axis=1)
    return tf.reduce_sum(tf.math.log(factors), axis=-1)


def _tiles(features: Tensor, kernel: Tensor) -> list[int]:
    """Return the numbers of rows of a kernel in each tile, so that the logits of a tile fit the
    cache.
    """
    size = kernel.shape[0]
    batch = features.shape[0] or CACHED // _LEAST
    if size * batch <= WHOLE:
        return [size]
    tile = max(_LEAST, CACHED // max(1, batch), -(-size // _MOST))
    tile += -tile % 16  # whole vectors
    return [min(tile, size - start) for start in range(0, size, tile)]
