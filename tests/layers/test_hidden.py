"""Hidden layers against the formula in NumPy: activations, residual blocks, layer normalisation, dropout."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import DeepHidden, ResidualBlock, TanhHidden

W, H = 6, 5
DEEP = [
    dict(activation="relu", residual_blocks=1),
    dict(activation="gelu", layer_norm=True),
    dict(activation="silu", residual_blocks=2, layer_norm=True),
    dict(residual_blocks=1),
]


def _randomised(layer, width=W):
    layer.build((None, width))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return layer


def _x(size=4):
    return np.random.default_rng(1).normal(size=(size, W)).astype(np.float32)


def _activate(name, z):
    if name == "gelu":  # approximated with tanh, as in Keras
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalise(a, norm):
    gamma, beta = (weight.numpy().astype(np.float64) for weight in (norm.gamma, norm.beta))
    return gamma * (a - a.mean(axis=1, keepdims=True)) / np.sqrt(a.var(axis=1, keepdims=True) + 1e-3) + beta


def _deep(layer, x, letters):
    """a of `DeepHidden`, float64 [B, h], from the matrices and biases by name."""
    a = _activate(layer.activation, x @ letters["H"] + letters["d"])
    for k, block in enumerate(layer.blocks, start=1):
        given = a if block.norm is None else _normalise(a, block.norm)
        a = a + _activate(layer.activation, given @ letters[f"H{k}"] + letters[f"d{k}"])
    return a if layer.norm is None else _normalise(a, layer.norm)


def _letters(layer) -> dict:
    letters = {"H": layer.H, "d": layer.d}
    for k, block in enumerate(getattr(layer, "blocks", []), start=1):
        letters |= {f"H{k}": block.H, f"d{k}": block.d}
    return letters


def _values(layer) -> dict[str, np.ndarray]:
    return {name: weight.numpy().astype(np.float64) for name, weight in _letters(layer).items()}


def test_tanh_layer_is_the_papers_formula():
    layer = _randomised(TanhHidden(H))
    np.testing.assert_allclose(layer(_x()), np.tanh(_x() @ layer.H.numpy() + layer.d.numpy()), rtol=1e-5)


@pytest.mark.parametrize("options", DEEP)
def test_deep_layer_is_its_formula(options):
    layer = _randomised(DeepHidden(H, **options))
    np.testing.assert_allclose(layer(_x()), _deep(layer, _x(), _values(layer)), atol=1e-5)


@pytest.mark.parametrize("options", DEEP)
def test_gradients_of_the_deep_layer(options):
    """Against differences of the formula in float64, matrix by matrix and bias by bias."""
    layer, x = _randomised(DeepHidden(H, **options)), _x()
    upstream = np.random.default_rng(2).normal(size=(len(x), H))
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer(x) * upstream)
    found = tape.gradient(total, [weight.value for weight in _letters(layer).values()])
    values = _values(layer)
    for gradient, value in zip(found, values.values(), strict=True):
        expected = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            kept, sums = value[place], []
            for step in (1e-5, -1e-5):
                value[place] = kept + step
                sums.append((_deep(layer, x, values) * upstream).sum())
            value[place], expected[place] = kept, (sums[0] - sums[1]) / 2e-5
        np.testing.assert_allclose(gradient, expected, atol=1e-4)


def test_scale_of_the_last_normalisation_starts_small():
    layer = DeepHidden(H, residual_blocks=1, layer_norm=True)
    layer.build((None, W))
    np.testing.assert_array_equal(layer.norm.gamma, np.full(H, 0.25))
    np.testing.assert_array_equal(layer.blocks[0].norm.gamma, np.ones(H))


def test_dropout_leaves_out_hidden_units_in_training():
    keras.utils.set_random_seed(0)
    layer, x = _randomised(TanhHidden(H, dropout=0.5)), np.tile(_x(1), (200, 1))
    plain, dropped = layer(x).numpy(), layer(x, training=True).numpy()
    ratio = (dropped / plain).round(4)
    assert set(np.unique(ratio)) == {0.0, 2.0} and 0.4 < (ratio > 0).mean() < 0.6


def test_dropout_of_a_block_leaves_its_input():
    keras.utils.set_random_seed(0)
    block, a = _randomised(ResidualBlock(dropout=0.5), H), np.random.default_rng(0).normal(size=(200, H))
    a = a.astype(np.float32)
    plain, dropped = block(a).numpy() - a, block(a, training=True).numpy() - a
    kept = np.abs(dropped) > 1e-6
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
