"""Dropout of hidden layers. Their formula: see tests/models/test_nplm.py."""

import keras
import numpy as np
import pytest

from keras_nplm import ResidualBlock, TanhHidden

X = np.random.default_rng(1).normal(size=6).astype(np.float32)


@pytest.mark.parametrize("kind", [TanhHidden, ResidualBlock])
def test_dropout_leaves_out_hidden_units_or_what_a_block_adds(kind):
    keras.utils.set_random_seed(0)
    block = kind is ResidualBlock
    layer, a = kind(dropout=0.5) if block else kind(5, dropout=0.5), np.tile(X, (200, 1))
    plain, dropped = layer(a).numpy() - (a if block else 0), layer(a, training=True).numpy() - (a if block else 0)
    kept = np.abs(dropped) > 1e-5
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
