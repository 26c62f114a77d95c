"""The network's formula and probabilities against NumPy in float64; its composition of layers."""

import itertools

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AveragedContext,
    ContextEmbedding,
    DeepHidden,
    FullSoftmax,
)

V, M, H = 11, 3, 4
VARIANTS = {
    "paper": dict(order=5),
    "paper, direct": dict(order=3, direct_connections=True),
    "averaged": dict(order=8, averages_after=(2,)),
    "averaged, direct": dict(order=8, averages_after=(1, 3, 6), direct_connections=True),
    "all averaged": dict(order=6, averages_after=(0, 4)),
    "block": dict(order=3, activation="relu", residual_blocks=1),
    "normalised": dict(order=3, activation="gelu", layer_norm=True),
    "deep, direct": dict(order=3, activation="silu", residual_blocks=2, layer_norm=True, direct_connections=True),
    "all, tied": dict(order=7, averages_after=(2, 4), residual_blocks=1, layer_norm=True, tied=True),
}


def _randomised(model: NPLM) -> NPLM:
    """Give every weight a random value, biases too."""
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.6, weight.shape))
    return model


def _variant(order, averages_after=None, tied=False, direct_connections=False, **hidden) -> NPLM:
    options = dict(order=order, embedding_dim=M, hidden_units=H, direct_connections=direct_connections)
    if averages_after:
        options["context"] = AveragedContext(V, M, averages_after=averages_after)
    if hidden:
        options["hidden"] = DeepHidden(H, **hidden)
    return _randomised(NPLM(V, output=FullSoftmax(V, tied=tied), **options))


def _batch(order, size=7):
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, V, (size, order - 1)).astype(np.int32)
    contexts[0, 0] = 0
    return contexts, rng.integers(1, V, size).astype(np.int32)


def _activate(name, z):
    if name == "gelu":  # approximated with tanh, as in Keras
        return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    return {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0), "silu": lambda z: z / (1 + np.exp(-z))}[name](z)


def _normalise(a, norm):
    return norm.gamma.numpy() * (a - a.mean()) / np.sqrt(a.var() + 1e-3) + norm.beta.numpy()


def _probabilities(model, context, averages_after=None, **_) -> np.ndarray:
    """P of every word in one context: averages of far words, residual blocks, tied output, all in one formula."""
    C = model.embed.C.numpy().astype(np.float64)
    words = [C[word] * (word != 0) for word in context]  # oldest first
    if averages_after:
        near, ends, back = averages_after[0], [*averages_after, len(words)], words[::-1]
        spans = [np.sum(back[a:b], axis=0) / np.sqrt(b - a) for a, b in itertools.pairwise(ends)]
        words = [*spans[::-1], *words[len(words) - near :]]
    x, hidden = np.concatenate(words), model.hidden
    a = _activate(hidden.activation, hidden.d.numpy() + x @ hidden.H.numpy())
    for block in getattr(hidden, "blocks", []):
        given = a if block.norm is None else _normalise(a, block.norm)
        a = a + _activate(hidden.activation, block.d.numpy() + given @ block.H.numpy())
    a = a if getattr(hidden, "norm", None) is None else _normalise(a, hidden.norm)
    features = np.concatenate([a, x]) if model.direct_connections else a
    kernel = C if model.prob.tied else model.prob.kernel.numpy()
    y = model.prob.b.numpy() + kernel @ (features @ model.prob.P.numpy() if model.prob.tied else features)
    return np.exp(y) / np.exp(y).sum()


@pytest.mark.parametrize("name", VARIANTS)
def test_probabilities_are_those_of_the_formula(name):
    model = _variant(**VARIANTS[name])
    contexts, targets = _batch(model.order)
    expected = np.array([_probabilities(model, context, **VARIANTS[name]) for context in contexts])
    np.testing.assert_allclose(model(contexts), expected, rtol=2e-4)
    chosen = np.log(expected[np.arange(len(targets)), targets])
    np.testing.assert_allclose(model.log_prob(contexts, targets), chosen, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.output_log_prob(contexts, targets), chosen, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n, m, h, direct", [(5, 3, 4, True), (5, 3, 4, False), (2, 1, 1, True), (3, 6, 0, True)])
def test_number_of_parameters(n, m, h, direct):
    # h (1 + (n-1) m) is H and d, absent without hidden units
    expected = V * (1 + (n if direct else 1) * m + h) + h * (1 + (n - 1) * m)
    model = NPLM(V, n, m, h, direct)
    assert sum(weight.numpy().size for weight in model.weights) == model.count_params() == expected


def test_layer_with_weights_keeps_them():
    """As pretrained feature vectors, or a context layer that two models share."""
    embed = ContextEmbedding(V, M)
    embed.build((None, 3))
    embed.C.assign(np.random.default_rng(0).normal(size=(V, M)))
    before = embed.C.numpy()
    first, second = (NPLM(V, 4, hidden_units=H, context=embed) for _ in range(2))
    assert first.embed.C is second.embed.C is embed.C and len(embed.weights) == 1
    np.testing.assert_array_equal(embed.C.numpy(), before)
