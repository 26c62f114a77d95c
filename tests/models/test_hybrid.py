"""Hybrids: their start, training by `fit`, adaptation, and the log-probabilities of batches.

Their formula and its gradient are held by networks/test_every_network.py.
"""

import numpy as np
import pytest

from keras_nplm import Hybrid, HybridNetwork, LinearHead
from keras_nplm.layers.hidden import NoHidden
from tests.language_models import V, build
from tests.networks import compose, randomise

RNG = np.random.default_rng(0)


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
    "options",
    [
        {},
        dict(head=LinearHead(V, rank=2, name="prob")),
        dict(head=LinearHead(V, tied=True, name="prob")),
        dict(hidden=NoHidden(name="hidden"), direct_connections=True),
    ],
    ids=["U", "low rank", "tied", "direct connections alone"],
)
def test_a_hybrid_without_its_network_is_the_ngram_model(options):
    network = randomise(_compose(**options))
    background = build("kneser-ney", "sentence")
    contexts = RNG.integers(4, V, (6, background.order - 1))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts)
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)
