"""Negative samples: how often words are sampled, the proposal, held-out words as targets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import SampledSoftmax
from keras_nplm.layers.objectives.base import smooth_unigram
from keras_nplm.layers.objectives.sampled import SampledObjective

V = 30


def build(num_outputs: int = V, **options) -> SampledObjective:
    objective = SampledSoftmax(**options)
    objective.build((None, num_outputs))
    return objective


def start(objective: SampledObjective, counts: np.ndarray, min_count: int = 1) -> None:
    mass = objective.held_out_mass
    unigram, held_out = smooth_unigram(counts, len(counts), min_count, mass)
    objective.set_unigram(unigram, held_out)


def draw(objective: SampledObjective) -> np.ndarray:
    """Return the negative samples of the next step."""
    strata = objective.draw_strata(objective.num_sampled)
    return np.asarray(objective.noise.draw(strata))


@settings(max_examples=10)
@given(st.integers(0, 1000), st.integers(1, 400))
def test_words_are_sampled_as_often_as_the_proposal_says(seed, k):
    """One word per stratum: a word comes k Q(w) times, up to the strata that it shares."""
    objective = build(num_sampled=k, seed=seed)
    counts = np.random.default_rng(seed).integers(0, 50, V)
    counts[:5] = 0, 3, 0, 0, 1
    start(objective, counts)
    often = np.bincount(draw(objective), minlength=V)
    expected = k * np.exp(objective.log_q.numpy().astype(np.float64))
    assert often.sum() == k
    assert np.all(np.abs(often - expected) < 2.01)
    assert often[0] == often[2] == 0  # <pad> and <s> are never predicted
    [least] = objective.noise.draw(np.zeros(1, np.float32))
    assert expected[int(least)] > 1e-9


@pytest.mark.parametrize(
    "proposal, counts, ranked",
    [
        ("unigram", [0, 5, 0, 9, 1, 7, 3, 2], None),
        ("log-uniform", [0, 5, 0, 9, 1, 7, 0, 2], [3, 5, 1, 7, 4, 6]),  # by frequency
        ("unigram", None, [1, 3, 4, 5, 6, 7]),  # before the unigram start: by id
    ],
)
def test_the_proposal_is_the_frequency_or_log_uniform_by_rank(proposal, counts, ranked):
    objective = build(8, num_sampled=4, proposal=proposal, seed=0)
    expected = np.zeros(8)
    if counts:
        start(objective, np.array(counts))
        expected += counts
    if ranked:
        expected[:] = 0
        for rank, word in enumerate(ranked):
            expected[word] = np.log((rank + 2) / (rank + 1))
    found = np.exp(objective.log_q.numpy())
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-6)


def test_targets_are_replaced_by_held_out_words():
    objective = build(num_sampled=8, held_out_mass=0.2, seed=3)
    counts = np.full(V, 5)
    counts[20:] = 0
    start(objective, counts, min_count=4)
    targets = np.full(20_000, 4, np.int32)
    replaced = np.asarray(objective.replace_at_random(targets, objective.held_out))
    assert np.mean(replaced != 4) == pytest.approx(0.2, abs=0.01)
    assert set(replaced) == {4, *range(20, V)}


def test_a_seed_gives_the_same_samples_and_each_step_others():
    one = build(num_sampled=64, seed=5)
    other = build(num_sampled=64, seed=5)
    first = draw(one)
    np.testing.assert_array_equal(draw(other), first)
    assert draw(one).tolist() != first.tolist()


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float64"])
def test_ids_and_probabilities_are_exact_in_half_precision(dtype):
    size = 5000  # bfloat16 has no ids above 256
    objective = build(size, num_sampled=2000, dtype=dtype, seed=0)
    counts = np.ones(size)
    start(objective, counts)
    samples = draw(objective)
    assert samples.max() > 4900
    assert len(np.unique(samples)) > 1500
    assert objective.log_q.dtype == ("float64" if dtype == "float64" else "float32")
