"""Direct connections: a layer of its own, and inside NPLM part of the output layer's kernel."""

import numpy as np
import pytest

from keras_nplm import NPLM, DirectConnection, FullSoftmax

V, N, M, H = 11, 4, 3, 5


def test_alone_it_computes_W_x():
    layer, x = DirectConnection(V), np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)
    np.testing.assert_allclose(layer(x), x @ layer.W.numpy().T, atol=1e-6)


@pytest.mark.parametrize("hidden_units, rank", [(H, None), (H, 2), (0, None)])
def test_inside_NPLM_it_computes_W_x(hidden_units, rank):
    model = NPLM(V, N, M, hidden_units, direct_connections=True, output=FullSoftmax(V, rank=rank))
    W = model.prob.kernel.numpy()
    W = (W if rank is None else W @ model.prob.P.numpy().T)[:, hidden_units:]  # low rank: [U W] = K P
    np.testing.assert_allclose(model.direct.W, W, atol=1e-6)
    x = model.embed(np.random.default_rng(1).integers(0, V, (7, N - 1)))
    np.testing.assert_allclose(model.direct(x), np.asarray(x) @ W.T, atol=1e-6)
    assert not model.direct.weights  # W is part of the output layer's kernel
