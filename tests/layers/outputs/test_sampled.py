"""Negative samples: how often words are sampled, the proposal, held-out words as targets. Dropout of energies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NoiseContrastive, SampledSoftmax

V = 30


def _build(vocabulary_size: int = V, layer: type = SampledSoftmax, **options) -> SampledSoftmax:
    output = layer(vocabulary_size, **options)
    output.build((None, 6))
    return output


def _samples(output) -> np.ndarray:
    """The negative samples of the layer's next step."""
    return np.asarray(output._sample(output.noise, output._strata(output.num_sampled)))


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 400))
def test_words_are_sampled_as_often_as_the_proposal_says(seed, k):
    """One word per stratum: a word comes k Q(w) times, up to the strata that it shares."""
    output = _build(num_sampled=k, seed=seed)
    counts = np.random.default_rng(seed).integers(0, 50, V)
    counts[:5] = 0, 3, 0, 0, 1
    output.set_unigram(counts)
    often = np.bincount(_samples(output), minlength=V)
    expected = k * np.exp(output.log_q.numpy().astype(np.float64))
    assert often.sum() == k and np.all(np.abs(often - expected) < 2.01)
    assert often[0] == often[2] == 0  # <pad> and <s> are never predicted


def test_log_uniform_proposal_is_by_rank():
    output = _build(8, num_sampled=4, proposal="log-uniform", seed=0)
    output.set_unigram(np.array([0, 5, 0, 9, 1, 7, 0, 2]))
    rank = {3: 0, 5: 1, 1: 2, 7: 3, 4: 4, 6: 5}  # by frequency
    expected = np.array([np.log((rank[w] + 2) / (rank[w] + 1)) if w in rank else 0 for w in range(8)])
    np.testing.assert_allclose(np.exp(output.log_q.numpy()), expected / expected.sum(), atol=1e-6)


def test_targets_are_replaced_by_held_out_words():
    output = _build(layer=NoiseContrastive, num_sampled=8, held_out_mass=0.2, seed=3)
    counts = np.full(V, 5)
    counts[20:] = 0
    output.set_unigram(counts, min_count=4)
    replaced = np.asarray(output._replace_by_held_out(np.full(20_000, 4, np.int32)))
    assert np.mean(replaced != 4) == pytest.approx(0.2, abs=0.01)
    assert set(replaced) == {4, *range(20, V)}
