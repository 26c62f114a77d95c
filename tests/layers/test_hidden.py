"""Dropout of hidden layers. Their features: `tests/models/networks`."""

import keras
import numpy as np
import pytest

from keras_nplm import ResidualBlock, TanhHidden

W = 6  # features


@pytest.mark.parametrize("kind", [TanhHidden, ResidualBlock])
def test_dropout_leaves_out_units_or_what_a_block_adds(kind):
    keras.utils.set_random_seed(0)
    layer = TanhHidden(W, dropout=0.5) if kind is TanhHidden else ResidualBlock(dropout=0.5)
    x = np.full((200, W), 0.7, np.float32)
    skipped = 0 if kind is TanhHidden else x
    plain, dropped = (layer(x, training=training).numpy() - skipped for training in (False, True))
    kept = np.abs(dropped) > 1e-5
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
    assert 0.4 < kept.mean() < 0.6
