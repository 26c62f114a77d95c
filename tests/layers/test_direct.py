"""Direct connections: a layer of its own, and inside NPLM part of the output layer's kernel."""

import numpy as np

from keras_nplm import DirectConnection

V, N, M, H = 11, 4, 3, 5


def test_alone_it_computes_W_x():
    layer, x = DirectConnection(V), np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    np.testing.assert_allclose(layer(x), x @ layer.W.numpy().T, atol=1e-6)
