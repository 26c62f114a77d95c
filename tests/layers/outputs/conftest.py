"""Output layers of each kind with random weights, and a batch of features."""

from collections.abc import Callable

import keras
import numpy as np
import pytest

from keras_nplm import AdaptiveSoftmax, EnergyOutput, FullSoftmax, NoiseContrastive, SampledSoftmax
from keras_nplm.layers.outputs import Output

V, W, B = 30, 6, 9  # words, features, n-grams
KINDS = {
    "full": lambda: FullSoftmax(V, name="prob"),
    "full, held out": lambda: FullSoftmax(V, held_out_mass=0.2, self_normalisation=0.1, name="prob"),
    "full, low rank": lambda: FullSoftmax(V, rank=3, name="prob"),
    "full, tied": lambda: FullSoftmax(V, tied=True, name="prob"),
    "short-list": lambda: FullSoftmax(V, shortlist_size=20, outside_output=True, name="prob"),
    "sampled": lambda: SampledSoftmax(V, num_sampled=8, seed=3, name="prob"),
    "sampled, log-uniform": lambda: SampledSoftmax(V, num_sampled=8, proposal="log-uniform", seed=3, name="prob"),
    "nce": lambda: NoiseContrastive(V, num_sampled=8, self_normalisation=0.1, seed=3, name="prob"),
    "nce, held out": lambda: NoiseContrastive(V, num_sampled=8, held_out_mass=0.2, seed=3, name="prob"),
    "adaptive": lambda: AdaptiveSoftmax(V, cutoffs=(7, 16), name="prob"),
    "energy": lambda: EnergyOutput(V, hidden_units=5, num_sampled=8, self_normalisation=0.1, seed=3, name="prob"),
}


@pytest.fixture
def build() -> Callable[[str], Output]:
    """Build a layer of a kind, with the weights it starts with."""

    def build(kind: str) -> Output:
        output = KINDS[kind]()
        if output.uses_embedding:
            C = np.random.default_rng(2).normal(0, 0.3, (V, 5)).astype(np.float32)
            output.tie(keras.Variable(C, autocast=False))
        output.build((None, W))
        return output

    return build


@pytest.fixture
def randomised(build) -> Callable[[str], Output]:
    """Build a layer of a kind, with random weights."""

    def randomised(kind: str) -> Output:
        output, rng = build(kind), np.random.default_rng(0)
        for weight in output.trainable_weights:
            weight.assign(rng.normal(0, 0.7, weight.shape))
        return output

    return randomised


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def batch() -> tuple[np.ndarray, np.ndarray]:
    """Features [B, w] and targets [B]."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(B, W)).astype(np.float32), rng.integers(4, V, B).astype(np.int32)
