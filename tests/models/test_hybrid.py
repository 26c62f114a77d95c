"""Hybrids: their start, training by `fit`, adaptation, and the log-probabilities of batches.

Their formula and its gradient are held by networks/test_every_network.py.
"""

import numpy as np
import pytest

from keras_nplm import (
    Hybrid,
    HybridNetwork,
    LinearHead,
    kneser_ney,
)
from keras_nplm.layers.hidden import NoHidden
from tests.networks import compose

V = 9
RNG = np.random.default_rng(0)


def _text(sentences: int, seed: int = 0) -> np.ndarray:
    """Sentences in which each word says which words may follow."""
    rng = np.random.default_rng(seed)
    ids = []
    for _ in range(sentences):
        word = rng.integers(4, V)
        for _ in range(rng.integers(2, 7)):
            ids.append(word)
            word = 4 + (word - 4 + rng.integers(1, 3)) % (V - 4)
        ids.append(3)
    return np.array(ids, np.int32)


def _compose(**options) -> HybridNetwork:
    return compose(V, kind=HybridNetwork, **options)


def test_training_starts_at_the_ngram_model():
    """g is 1, b and v are 0, also after the unigram start, which Q makes superfluous."""
    network = _compose()
    network.set_unigram(np.arange(V))
    network.prob.U.assign(np.zeros(network.prob.U.shape))
    q = RNG.dirichlet(np.ones(V), 6).astype(np.float32)
    inputs = {"contexts": RNG.integers(4, V, (6, 2)), "log_q": np.log(q)}
    np.testing.assert_allclose(network(inputs), q, rtol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        _compose,
        lambda: _compose(head=LinearHead(V, rank=2, name="prob")),
        lambda: _compose(head=LinearHead(V, tied=True, name="prob")),
        lambda: _compose(hidden=NoHidden(name="hidden"), direct_connections=True),
    ],
    ids=["U", "low rank", "tied", "direct connections alone"],
)
def test_a_hybrid_without_its_network_is_the_ngram_model(build):
    network = build()
    for weight in network.trainable_weights:
        weight.assign(np.random.default_rng(1).normal(0, 0.5, weight.shape))
    background = kneser_ney(_text(30), V, 2)
    contexts = RNG.integers(4, V, (6, 2))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts[:, 1:])
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)
