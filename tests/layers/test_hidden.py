"""Hidden layers against the formula in NumPy: activations, residual blocks, layer normalisation, dropout."""

import keras
import numpy as np
import pytest

from keras_nplm import DeepHidden, ResidualBlock, TanhHidden

W, H = 6, 5
X = np.random.default_rng(1).normal(size=(4, W)).astype(np.float32)


def _randomised(layer, width=W):
    layer.build((None, width))
    rng = np.random.default_rng(0)
    for weight in layer.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return layer


def _activate(name, z):
    if name == "gelu":  # approximated with tanh, as in Keras
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalise(a, norm):
    if norm is None:
        return a
    gamma, beta = (weight.numpy().astype(np.float64) for weight in (norm.gamma, norm.beta))
    return gamma * (a - a.mean(axis=1, keepdims=True)) / np.sqrt(a.var(axis=1, keepdims=True) + 1e-3) + beta


def _deep(layer, x):
    """a of a hidden layer, float64 [B, h]."""
    a = _activate(layer.activation, x @ layer.H.numpy() + layer.d.numpy())
    for block in getattr(layer, "blocks", []):
        a = a + _activate(layer.activation, _normalise(a, block.norm) @ block.H.numpy() + block.d.numpy())
    return _normalise(a, getattr(layer, "norm", None))


@pytest.mark.parametrize(
    "layer",
    [
        TanhHidden(H),
        DeepHidden(H, activation="relu", residual_blocks=1),
        DeepHidden(H, activation="gelu", layer_norm=True),
        DeepHidden(H, activation="silu", residual_blocks=2, layer_norm=True),
        DeepHidden(H, residual_blocks=1),
    ],
)
def test_hidden_layer_is_its_formula(layer):
    _randomised(layer)
    np.testing.assert_allclose(layer(X), _deep(layer, X), atol=1e-5)


@pytest.mark.parametrize("kind", [TanhHidden, ResidualBlock])
def test_dropout_leaves_out_hidden_units_or_what_a_block_adds(kind):
    keras.utils.set_random_seed(0)
    block = kind is ResidualBlock
    layer, a = _randomised(kind(dropout=0.5) if block else kind(H, dropout=0.5)), np.tile(X[:1], (200, 1))
    plain, dropped = layer(a).numpy() - (a if block else 0), layer(a, training=True).numpy() - (a if block else 0)
    kept = np.abs(dropped) > 1e-5
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
