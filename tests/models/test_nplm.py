"""The network with each kind of hidden layer against its formula in NumPy; layers that are given."""

import numpy as np
import pytest

from keras_nplm import NPLM, ContextEmbedding, DeepHidden

V, M, H = 11, 3, 4
VARIANTS = {
    "paper": {},
    "block": dict(activation="relu", residual_blocks=1),
    "normalised": dict(activation="gelu", layer_norm=True),
    "deep": dict(activation="silu", residual_blocks=2, layer_norm=True),
}


def _activate(name, z):
    if name == "gelu":  # approximated with tanh, as in Keras
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalise(a, norm):
    return norm.gamma.numpy() * (a - a.mean()) / np.sqrt(a.var() + 1e-3) + norm.beta.numpy()


@pytest.mark.parametrize("name", VARIANTS)
def test_probabilities_are_those_of_the_formula(name):
    model = NPLM(V, 3, M, H, hidden=DeepHidden(H, **VARIANTS[name]) if VARIANTS[name] else "tanh")
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.6, weight.shape))
    hidden, contexts = model.hidden, rng.integers(0, V, (7, 2)).astype(np.int32)
    for context, found in zip(contexts, model(contexts).numpy(), strict=True):
        x = np.concatenate([model.embed.C.numpy()[word] * (word != 0) for word in context])
        a = _activate(hidden.activation, hidden.d.numpy() + x @ hidden.H.numpy())
        for block in getattr(hidden, "blocks", []):
            given = a if block.norm is None else _normalise(a, block.norm)
            a = a + _activate(hidden.activation, block.d.numpy() + given @ block.H.numpy())
        a = a if getattr(hidden, "norm", None) is None else _normalise(a, hidden.norm)
        y = model.prob.b.numpy() + model.prob.kernel.numpy() @ a
        np.testing.assert_allclose(found, np.exp(y) / np.exp(y).sum(), rtol=2e-4)


def test_layer_with_weights_keeps_them():
    """As pretrained feature vectors, or a context layer that two models share."""
    embed = ContextEmbedding(V, M)
    embed.build((None, 3))
    embed.C.assign(np.random.default_rng(0).normal(size=(V, M)))
    before = embed.C.numpy()
    first, second = (NPLM(V, 4, hidden_units=H, context=embed) for _ in range(2))
    assert first.embed.C is second.embed.C is embed.C and len(embed.weights) == 1
    np.testing.assert_array_equal(embed.C.numpy(), before)
