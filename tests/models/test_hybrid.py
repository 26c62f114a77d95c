"""A hybrid without its network. Formula, gradient and start: `networks/test_every_network.py`."""

import numpy as np
import pytest

from keras_nplm import AdaptiveHead, EnergyHead, Hybrid, HybridNetwork, LinearHead
from keras_nplm.layers.hidden import NoHidden
from tests.language_models import V, build
from tests.networks import compose, randomise


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(head=LinearHead(V, rank=2, name="prob")),
        dict(head=LinearHead(V, tied=True, name="prob")),
        dict(hidden=NoHidden(name="hidden"), direct_connections=True),
        dict(head=AdaptiveHead(V, cutoffs=(6, 9), name="prob")),
        dict(head=EnergyHead(V, 4, name="prob"), hidden=None),
    ],
    ids=["U", "low rank", "tied", "direct connections alone", "clusters", "energy"],
)
def test_a_hybrid_without_its_network_is_the_ngram_model(options):
    network = randomise(compose(V, kind=HybridNetwork, **options))
    background = build("kneser-ney", "sentence")
    contexts = np.random.default_rng(0).integers(4, V, (6, background.order - 1))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts)
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)
