"""Networks with new words: renormalised probabilities, and what training draws words from."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import Likelihood, NoiseContrastive
from keras_nplm.models.networks.growth import NewRows, grow, renormalise
from tests.networks import compose

V = 14
J = 3
COUNTS = np.array([0, 5, 0, 3, 9, 7, 5, 4, 4, 2, 1, 1, 0, 0])
# of new words the greatest share, of old ones min_count 4 less the count
HELD_OUT = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4, 4, 4, 4]) / 29
FREQUENCIES = np.array([0.05, 0.02, 0.01])  # of new words
UNIFORM = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000


def grow_network(objective):
    """Return a network with counts, and the same with new words."""
    network = compose(V, order=4, embedding_dim=3, objective=objective)
    network.set_unigram(COUNTS, min_count=4)
    rng = np.random.default_rng(3)
    C, kernel, b = rng.normal(size=(J, 3)), rng.normal(size=(J, 5)), rng.normal(size=J)
    return network, grow(network, NewRows(C, kernel, b, FREQUENCIES))


@settings(max_examples=25)
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


def test_held_out_mass_reaches_new_words():
    _, grown = grow_network(Likelihood(held_out_mass=0.2, self_normalisation=0.1))
    np.testing.assert_allclose(grown.objective.q.numpy(), HELD_OUT, atol=1e-6)


def test_negative_samples_are_drawn_from_new_words():
    network, grown = grow_network(NoiseContrastive(num_sampled=8, held_out_mass=0.2, seed=1))
    objective = grown.objective
    before = np.exp(network.objective.log_q.numpy())
    after = np.exp(objective.log_q.numpy())
    np.testing.assert_allclose(after[V:], FREQUENCIES, rtol=1e-4)
    np.testing.assert_allclose(after[4:V], before[4:] * 0.92, rtol=1e-3)
    for sampler, expected in ((objective.noise, after), (objective.held_out, HELD_OUT)):
        words = np.asarray(sampler.draw(UNIFORM))
        sampled = np.bincount(words, minlength=V + J) / len(UNIFORM)
        np.testing.assert_allclose(sampled, expected, atol=1e-4)
