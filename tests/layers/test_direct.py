"""Direct connections: alone in a functional model, and inside NPLM as part of the output layer's kernel."""

import keras
import numpy as np
import pytest

from keras_nplm import NPLM, ContextEmbedding, DirectConnection, FullSoftmax, TanhHidden

V, N, M, H = 11, 4, 3, 5
CONTEXTS = np.random.default_rng(1).integers(0, V, (7, N - 1)).astype(np.int32)


def _functional(model: NPLM) -> tuple[keras.Model, dict]:
    """softmax(Dense(V)(a) + DirectConnection(V)(x)) with the weights of an NPLM, and its layers by name."""
    context_ids = keras.Input((N - 1,), dtype="int32")
    layers = {"embed": ContextEmbedding(V, M), "hidden": TanhHidden(H)}
    layers |= {"dense": keras.layers.Dense(V), "direct": DirectConnection(V)}
    x = layers["embed"](context_ids)
    y = layers["dense"](layers["hidden"](x)) + layers["direct"](x)
    functional = keras.Model(context_ids, keras.layers.Softmax()(y))
    layers["embed"].C.assign(model.embed.C)
    layers["hidden"].set_weights(model.hidden.get_weights())
    kernel = model.prob.kernel.numpy()  # [U W]
    layers["dense"].set_weights([kernel[:, :H].T, model.prob.b.numpy()])
    layers["direct"].set_weights([kernel[:, H:]])
    return functional, layers


def test_functional_model_has_the_outputs_and_gradients_of_NPLM():
    """The weights after a step of plain SGD are the same: those of the tiled loss and those of Keras's own loss."""
    model, targets, rng = NPLM(V, N, M, H, direct_connections=True), np.arange(7) + 2, np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    functional, layers = _functional(model)
    np.testing.assert_allclose(functional(CONTEXTS), model(CONTEXTS), rtol=1e-5)
    functional.compile(keras.optimizers.SGD(1.0), loss="sparse_categorical_crossentropy")
    model.compile(keras.optimizers.SGD(1.0))
    before = model.prob.kernel.numpy()
    losses = [network.train_on_batch(CONTEXTS, targets) for network in (functional, model)]
    np.testing.assert_allclose(losses[0], losses[1][0], rtol=1e-5)
    kernel = model.prob.kernel.numpy()
    assert np.abs(kernel - before).max() > 0.01
    U, b = layers["dense"].get_weights()
    pairs = [(kernel[:, :H], U.T), (kernel[:, H:], layers["direct"].W), (model.prob.b, b)]
    others = layers["embed"].trainable_weights + layers["hidden"].trainable_weights
    pairs += zip(model.embed.trainable_weights + model.hidden.trainable_weights, others, strict=True)
    for fused, separate in pairs:
        np.testing.assert_allclose(fused, separate, atol=1e-6)


@pytest.mark.parametrize("hidden_units, rank", [(H, None), (H, 2), (0, None)])
def test_inside_NPLM_it_computes_W_x(hidden_units, rank):
    model = NPLM(V, N, M, hidden_units, direct_connections=True, output=FullSoftmax(V, rank=rank))
    W = model.prob.kernel.numpy()
    W = (W if rank is None else W @ model.prob.P.numpy().T)[:, hidden_units:]  # low rank: [U W] = K P
    np.testing.assert_allclose(model.direct.W, W, atol=1e-6)
    x = model.embed(CONTEXTS)
    np.testing.assert_allclose(model.direct(x), np.asarray(x) @ W.T, atol=1e-6)
    assert not model.direct.weights  # W is part of the output layer's kernel
