"""Saved networks: configuration, weights, optimiser and random states come back."""

import unittest.mock

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    ContextNetwork,
    DeepHidden,
    DirectConnection,
    EnergyHead,
    HybridNetwork,
    LazyAdagrad,
    LazySGD,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    PointerNetwork,
    SampledSoftmax,
    TanhHidden,
)
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.hidden import NoHidden
from keras_nplm.layers.scores import StoredScores
from keras_nplm.models.networks.network_file import load_network

V = 30
N = 5
M = 4
H = 6


@keras.saving.register_keras_serializable("test_network_file")
class Clipped(keras.layers.Layer):
    """A layer that the program registers."""

    def call(self, x):
        return keras.ops.clip(x, -0.01, 0.01)


@keras.saving.register_keras_serializable("test_network_file")
class Unnamed(Head):
    """A head whose weights have no names."""

    def build(self, input_shape):
        self.K = self.add_weight(shape=(input_shape[-1], self.vocabulary_size))
        self.c = self.add_weight(shape=(self.vocabulary_size,), initializer="zeros")

    def scores(self, features, training=False):
        return StoredScores(keras.ops.matmul(features, self.K) + self.c)


@keras.saving.register_keras_serializable("test_network_file")
class Scaled(ContextNetwork):
    """A network with a weight of its own, without a name."""

    def build_parts(self, features_shape):
        self.scale = self.add_weight(shape=(), initializer="ones")

    def score(self, context, features, training=False):
        return StoredScores(super().score(context, features, training).logits() * self.scale)


def build_network(kind=ContextNetwork, **options):
    layers = dict(
        order=N,
        embed=ContextEmbedding(V, M, name="embed"),
        hidden=TanhHidden(H, name="hidden"),
        head=LinearHead(V, name="prob"),
        objective=Likelihood(name="objective"),
    )
    layers.update(options)
    return kind(**layers)


def build_paper():
    return NPLM(V, N, M, H, direct_connections=True, weight_decay=0.1, dropout=0.2)


def build_half_precision():
    return NPLM(V, N, M, H, dtype="mixed_bfloat16")


def build_no_hidden_layer():
    return NPLM(V, N, M, hidden_units=0, direct_connections=True, boundary="stream")


def build_averaged_deep_direct():
    return build_network(
        embed=AveragedContext(V, M, averages_after=(1, 2), word_dropout=0.2, name="embed"),
        hidden=DeepHidden(H, activation="gelu", residual_blocks=1, layer_norm=True, dropout=0.2),
        direct=DirectConnection(V, name="direct"),
    )


def build_registered_layer():
    return build_network(hidden=Clipped(name="hidden"))


def build_tied():
    embed = ContextEmbedding(V, M, weight_decay=0.1, word_dropout=0.1, dropout=0.1, name="embed")
    return build_network(embed=embed, head=LinearHead(V, tied=True, name="prob"))


def build_tied_no_hidden_layer():
    return build_network(
        hidden=NoHidden(name="hidden"),
        head=LinearHead(V, tied=True, name="prob"),
        direct=DirectConnection(V, name="direct"),
    )


def build_pointer():
    return build_network(
        PointerNetwork,
        embed=ContextEmbedding(V, M, word_dropout=0.1, name="embed"),
        head=LinearHead(V, rank=3, name="prob"),
        objective=NoiseContrastive(num_sampled=5, self_normalisation=0.1, seed=3),
    )


def build_shortlist():
    return build_network(head=LinearHead(V, num_outputs=13, weight_decay=0.1, name="prob"))


def build_adaptive():
    return build_network(head=AdaptiveHead(V, cutoffs=(7, 16), name="prob"))


def build_sampled():
    return build_network(objective=SampledSoftmax(num_sampled=5, proposal="log-uniform", seed=3))


def build_nce():
    objective = NoiseContrastive(num_sampled=5, held_out_mass=0.2, self_normalisation=0.1, seed=3)
    return build_network(head=LinearHead(V, rank=3, name="prob"), objective=objective)


def build_energy():
    return build_network(
        hidden=None,
        head=EnergyHead(V, hidden_units=H, dropout=0.2, name="prob"),
        objective=SampledSoftmax(num_sampled=5, seed=3),
    )


def build_hybrid():
    return build_network(HybridNetwork, objective=Likelihood(held_out_mass=0.1))


def build_unnamed_weights():
    return build_network(Scaled, head=Unnamed(V, name="prob"))


BUILDERS = [
    build_paper,
    build_half_precision,
    pytest.param(build_no_hidden_layer, marks=pytest.mark.long),
    build_averaged_deep_direct,
    build_registered_layer,
    pytest.param(build_tied, marks=pytest.mark.long),
    build_tied_no_hidden_layer,
    build_pointer,
    build_shortlist,
    build_adaptive,
    pytest.param(build_sampled, marks=pytest.mark.long),
    build_nce,
    build_energy,
    build_hybrid,
    build_unnamed_weights,
]
TRAINED = [
    build_nce,
    pytest.param(build_averaged_deep_direct, marks=pytest.mark.long),
    pytest.param(build_adaptive, marks=pytest.mark.long),
    pytest.param(build_energy, marks=pytest.mark.long),
]


def make_batch(size=24):
    rng = np.random.default_rng(0)
    contexts = rng.integers(1, V, (size, N - 1)).astype(np.int32)
    targets = (contexts[:, -1] % 5 + 4).astype(np.int32)
    return contexts, targets


def make_inputs(model):
    contexts, _ = make_batch()
    if not isinstance(model, HybridNetwork):
        return contexts
    log_q = np.log(np.random.default_rng(1).dirichlet(np.ones(V), len(contexts)))
    return {"contexts": contexts, "log_q": log_q.astype(np.float32)}


@pytest.mark.parametrize("build", BUILDERS)
def test_a_file_makes_the_same_network(build, tmp_path):
    keras.utils.set_random_seed(1)
    model = build()
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.3, weight.shape))
    model.save(tmp_path / "model.keras")
    restored = load_network(tmp_path / "model.keras")
    assert not restored.compiled
    assert restored.get_config() == model.get_config()
    paths = [(weight.path, tuple(weight.shape)) for weight in model.weights]
    assert [(weight.path, tuple(weight.shape)) for weight in restored.weights] == paths
    for one, other in zip(restored.list_layers(), model.list_layers(), strict=True):
        assert type(one) is type(other)
    inputs = make_inputs(model)
    np.testing.assert_array_equal(restored(inputs), model(inputs))


@pytest.mark.parametrize("build", [build_pointer, build_hybrid])
def test_no_graph_is_compiled_to_save_or_to_load(build, monkeypatch, tmp_path):
    """Keras reads all attributes of a network, and a graph takes a second."""
    model = build()
    function = unittest.mock.Mock(wraps=tf.function)
    monkeypatch.setattr(tf, "function", function)
    model.save(tmp_path / "model.keras")
    load_network(tmp_path / "model.keras")
    function.assert_not_called()


@pytest.mark.parametrize("build", TRAINED)
def test_a_loaded_network_trains_on_alike(build, tmp_path):
    """Weights, optimiser, and the random numbers of dropout and of negative samples."""
    keras.utils.set_random_seed(1)
    model = build()
    contexts, targets = make_batch()
    optimizer = LazySGD(0.5)
    if build is build_energy:
        optimizer = LazyAdagrad(0.1, initial_accumulator_value=1e-4)
    model.compile(optimizer, run_eagerly=True)  # tracing takes longer than an update
    model.set_unigram(np.bincount(targets, minlength=V))
    model.fit(contexts, targets, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = True
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(loaded(contexts), model(contexts))
    for one in (model, loaded):
        one.fit(contexts, targets, shuffle=False, verbose=0)
    for left, right in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)
    for left, right in zip(model.random_states(), loaded.random_states(), strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy())


def exclude_nothing(optimizer, model):
    """Leave the weight decay of all weights."""


def exclude_biases(optimizer, model):
    optimizer.exclude_from_weight_decay(var_list=model.biases)


def exclude_vectors_by_name(optimizer, model):
    optimizer.exclude_from_weight_decay(var_names=["C"])


@pytest.mark.parametrize(
    "exclude, excluded",
    [
        (exclude_nothing, set()),
        (exclude_biases, {"b", "d"}),
        (exclude_vectors_by_name, {"C"}),
    ],
)
def test_a_loaded_network_has_the_same_weight_decay(exclude, excluded, tmp_path):
    model = build_network()
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    exclude(optimizer, model)
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    decays = loaded.optimizer._use_weight_decay
    assert {weight.name for weight in loaded.weights if not decays(weight)} == excluded


def test_weights_of_another_layer_are_refused(tmp_path):
    build_adaptive().save_weights(tmp_path / "adaptive.weights.h5")
    with pytest.raises(ValueError, match=r"must have the weights \['U', 'b'\]"):
        build_network().load_weights(tmp_path / "adaptive.weights.h5")
