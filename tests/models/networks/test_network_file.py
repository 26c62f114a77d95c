"""Saved networks: configuration, weights, optimiser and random states come back."""

import keras
import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    AdaptiveSoftmax,
    AveragedContext,
    ContextEmbedding,
    DeepHidden,
    EnergyOutput,
    FullSoftmax,
    LazyAdagrad,
    LazySGD,
    NoiseContrastive,
    SampledSoftmax,
)
from keras_nplm.models.networks.network_file import load_network

V, N, M, H = 30, 5, 4, 6


@keras.saving.register_keras_serializable("test_nplm_saving")
class Clipped(keras.layers.Layer):
    """A layer that the program registers."""

    def call(self, x):
        return keras.ops.clip(x, -0.01, 0.01)


def _networks() -> dict[str, dict]:
    sampled = dict(num_sampled=5, self_normalisation=0.1, seed=3, rank=3)
    return {
        "names": dict(hidden_units=H, embedding_dim=M, dropout=0.2, word_dropout=0.1, embedding_dropout=0.1),
        "averaged, deep, direct": dict(
            context=AveragedContext(V, M, averages_after=(1, 2), word_dropout=0.2, name="embed"),
            hidden=DeepHidden(H, activation="gelu", residual_blocks=1, layer_norm=True, dropout=0.2),
            direct_connections=True,
        ),
        "half precision": dict(hidden_units=H, dtype="mixed_bfloat16"),
        "registered layer": dict(embedding_dim=H, hidden=Clipped()),
        "no hidden layer": dict(embedding_dim=M, hidden=None, direct_connections=True, boundary="stream"),
        "given embedding, tied": dict(
            context=ContextEmbedding(V, M, weight_decay=0.1, dropout=0.1), output=FullSoftmax(V, tied=True)
        ),
        "pointer": dict(pointer=True, output=NoiseContrastive(V, **sampled), word_dropout=0.1),
        "short-list": dict(output=FullSoftmax(V, shortlist_size=9, outside_output=True), weight_decay=0.1),
        "adaptive": dict(output=AdaptiveSoftmax(V, cutoffs=(7, 16))),
        "sampled": dict(output=SampledSoftmax(V, num_sampled=5, proposal="log-uniform", seed=3)),
        "nce": dict(output=NoiseContrastive(V, held_out_mass=0.2, **sampled)),
        "energy": dict(output=EnergyOutput(V, H, dropout=0.2, num_sampled=5, seed=3), embedding_dim=M),
        "energy by name": dict(output="energy", hidden_units=H, dropout=0.2),
    }


# Trained in the fast tests; some others in the long ones
FAST, LONG = ("averaged, deep, direct", "nce"), ("names", "pointer", "adaptive", "sampled", "energy", "energy by name")


def _build(name: str) -> NPLM:
    keras.utils.set_random_seed(1)
    return NPLM(V, N, **_networks()[name])


def _batch(size=24):
    rng = np.random.default_rng(0)
    contexts = rng.integers(1, V, (size, N - 1)).astype(np.int32)
    return contexts, (contexts[:, -1] % 5 + 4).astype(np.int32)


@pytest.mark.parametrize("name", _networks())
def test_a_file_makes_the_same_network(name, tmp_path):
    model, (contexts, _) = _build(name), _batch()
    model.save(tmp_path / "model.keras")
    restored = load_network(tmp_path / "model.keras")
    assert restored.get_config() == model.get_config() and not restored.compiled
    shapes = [[(weight.path, tuple(weight.shape)) for weight in network.weights] for network in (model, restored)]
    assert shapes[0] == shapes[1]
    for part in ("embed", "hidden", "prob"):
        assert type(getattr(restored, part)) is type(getattr(model, part))
    np.testing.assert_array_equal(restored.next_log_probs(contexts), model.next_log_probs(contexts))


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_a_loaded_network_trains_on_alike(name, tmp_path):
    """Weights, optimiser, and the random numbers of dropout and of negative samples."""
    model, (contexts, targets) = _build(name), _batch()
    rate = 0.1 if name == "energy" else 0.5
    optimizer = LazyAdagrad(rate, initial_accumulator_value=1e-4) if "energy" in name else LazySGD(rate)
    model.compile(optimizer)
    model.set_unigram(np.bincount(targets, minlength=V))
    model.fit(contexts, targets, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded.next_log_probs(contexts), model.next_log_probs(contexts))
    for one in (model, loaded):
        one.fit(contexts, targets, shuffle=False, verbose=0)
    for left, right in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)
    for left, right in zip(model.random_states(), loaded.random_states(), strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())
