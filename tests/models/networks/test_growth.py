"""Networks with new words: renormalised probabilities, and what training draws words from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    ContextEmbedding,
    ContextNetwork,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    TanhHidden,
)
from keras_nplm.models.networks.growth import NewRows, grow, renormalise

V = 14
J = 3
N = 4
COUNTS = np.array([0, 5, 0, 3, 9, 7, 5, 4, 4, 2, 1, 1, 0, 0])
# of new words the greatest share, of old ones min_count 4 less the count
HELD_OUT = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4, 4, 4, 4]) / 29
UNIFORM = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000


def build_network(objective):
    embed = ContextEmbedding(V, 3, name="embed")
    hidden = TanhHidden(5, name="hidden")
    network = ContextNetwork(N, embed, LinearHead(V, name="prob"), objective, hidden)
    network.set_unigram(COUNTS, min_count=4)
    return network


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    return NewRows(
        C=rng.normal(size=(J, 3)),
        kernel=rng.normal(size=(J, 5)),
        b=rng.normal(size=J),
        frequencies=np.array([0.05, 0.02, 0.01]),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 30, 3000]), st.integers(1, 4))
def test_renormalised_is_the_softmax_of_all_logits(seed, scale, new):
    logits = np.random.default_rng(seed).normal(0, scale, (5, 6 + new))
    log_z = np.logaddexp.reduce(logits[:, :6], axis=1)
    before = logits[:, :6] - log_z[:, None]
    expected = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    old, added = renormalise(before, log_z, logits[:, 6:])
    np.testing.assert_allclose(np.concatenate([old, added], axis=1), expected, atol=1e-9)
    one, _ = renormalise(before[:, 2], log_z, logits[:, 6:])
    np.testing.assert_allclose(one, expected[:, 2], atol=1e-9)


def test_held_out_mass_reaches_new_words(rows):
    network = build_network(Likelihood(held_out_mass=0.2, self_normalisation=0.1))
    grown = grow(network, rows)
    np.testing.assert_allclose(grown.objective.q.numpy(), HELD_OUT, atol=1e-6)


def test_negative_samples_are_drawn_from_new_words(rows):
    network = build_network(NoiseContrastive(num_sampled=8, held_out_mass=0.2, seed=1))
    objective = grow(network, rows).objective
    before = np.exp(network.objective.log_q.numpy())
    after = np.exp(objective.log_q.numpy())
    np.testing.assert_allclose(after[V:], rows.frequencies, rtol=1e-4)
    np.testing.assert_allclose(after[4:V], before[4:] * 0.92, rtol=1e-3)
    for sampler, expected in ((objective.noise, after), (objective.held_out, HELD_OUT)):
        words = np.asarray(sampler.draw(UNIFORM))
        sampled = np.bincount(words, minlength=V + J) / len(UNIFORM)
        np.testing.assert_allclose(sampled, expected, atol=1e-4)


def test_a_grown_network_has_its_old_and_new_rows(rows):
    network = build_network(Likelihood())
    grown = grow(network, rows)
    pairs = [
        (grown.embed.C, network.embed.C, rows.C),
        (grown.prob.U, network.prob.U, rows.kernel),
        (grown.prob.b, network.prob.b, rows.b),
    ]
    for weight, old, new in pairs:
        np.testing.assert_array_equal(weight.numpy()[:V], old.numpy())
        np.testing.assert_allclose(weight.numpy()[V:], new, rtol=1e-6)
    np.testing.assert_array_equal(grown.hidden.H.numpy(), network.hidden.H.numpy())
