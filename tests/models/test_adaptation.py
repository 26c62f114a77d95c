"""Fine-tuning of a network: early stopping, the average with the trained weights, no change where
it does not help.
"""

import numpy as np
import pytest

from keras_nplm import NPLM, InputError
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.base import find_network
from keras_nplm.models.dynamic.network import copy_network
from keras_nplm.models.evaluation import evaluate
from keras_nplm.models.mixture import Mixture, Uniform
from tests.language_models import V, build

NEW = np.array([4, 5, 6, 7, 3] * 40, np.int32)
HELD_OUT = np.array([4, 5, 6, 7, 3] * 4, np.int32)


@pytest.fixture(scope="module")
def network() -> NPLM:
    network = NPLM(vocabulary_size=9, order=3, embedding_dim=3, hidden_units=4, dropout=0.2)
    network.set_unigram(np.array([0, 1, 0, 9, 5, 5, 5, 5, 20]))
    return network


@pytest.mark.long
def test_the_smallest_sufficient_share_is_chosen(network):
    """The weights are θ_0 + α (θ' - θ_0) with the smallest α within the tolerance of the best."""
    copy, result = adapt_network(network, NEW, HELD_OUT, epochs=3, seed=1)
    assert result.before == pytest.approx(evaluate(network, HELD_OUT)["perplexity"], rel=1e-5)
    assert result.after == pytest.approx(evaluate(copy, HELD_OUT)["perplexity"], rel=1e-5)
    assert result.after < 0.8 * result.before
    assert (result.tokens, result.held_out_tokens, result.held_out_unk_tokens) == (200, 20, 0)
    # each epoch is better than the one before: three times the rate is tried
    assert result.epochs == 3 and result.rate in (0.1, pytest.approx(0.3), pytest.approx(0.9))
    oracle = copy_network(network)
    perplexities = {}
    for share in (0.25, 0.5, 0.75, 1.0):
        weights = zip(network.get_weights(), copy.get_weights(), strict=True)
        oracle.set_weights([old + share / result.share * (new - old) for old, new in weights])
        perplexities[share] = evaluate(oracle, HELD_OUT)["perplexity"]
    lowest = min(perplexities.values())
    enough = [share for share, value in perplexities.items() if value <= 1.02 * lowest]
    assert result.share == enough[0]


@pytest.mark.long
def test_text_that_does_not_help_leaves_the_weights(network):
    wrong = np.array([8, 8, 8, 3] * 40, np.int32)  # of which the held-out text has nothing
    copy, result = adapt_network(network, wrong, HELD_OUT, epochs=1)
    assert (result.rate, result.epochs, result.share) == (0, 0, 0)
    assert result.after == result.before
    for weight, other in zip(copy.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


def test_a_text_without_words_of_the_short_list_is_refused():
    model = build("short-list", "sentence")
    unlisted = np.array([7, 8, 8] * 9, np.int32)  # without </s>, which the list has
    for texts in ((unlisted, HELD_OUT), (NEW, unlisted)):
        with pytest.raises(InputError, match="must have words that the network predicts.*its 7 "):
            adapt_network(model, *texts, epochs=1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["mixture", "short-list", "hybrid"])
def test_the_network_is_adapted_at_any_depth(name):
    model = Mixture([build(name, "sentence"), Uniform(V)], [0.9, 0.1])
    before = find_network(model).get_weights()
    copy, result = adapt_network(model, NEW, HELD_OUT, epochs=1, seed=1)
    assert copy.models[1] is model.models[1]
    assert result.after < result.before
    for adapted, perplexity in ((model, result.before), (copy, result.after)):
        assert perplexity == pytest.approx(evaluate(adapted, HELD_OUT)["perplexity"], rel=1e-5)
    pairs = zip(find_network(copy).get_weights(), before, strict=True)
    assert any(np.any(new != old) for new, old in pairs)
    for weight, old in zip(find_network(model).get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
