"""Saved networks: parts of the user, optimiser and random states come back.

Every layer comes back by test_every_network.py.
"""

import keras
import numpy as np
import pytest

from keras_nplm import (
    AveragedContext,
    ContextNetwork,
    DeepHidden,
    LazyAdagrad,
    LazySGD,
    LinearHead,
    NoiseContrastive,
    SampledSoftmax,
)
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.scores import StoredScores
from keras_nplm.models.networks.network_file import load_network
from tests.every_network import V, build_network
from tests.networks import compose, compose_energy


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


def make_batch():
    contexts = np.random.default_rng(0).integers(1, V, (24, 4)).astype(np.int32)
    return contexts, (contexts[:, -1] % 5 + 4).astype(np.int32)


def test_a_network_of_parts_of_the_user_comes_back(tmp_path):
    parts = dict(hidden=Clipped(name="hidden"), head=Unnamed(V, name="prob"))
    model = compose(V, order=5, kind=Scaled, **parts)
    model.scale.assign(0.5)
    model.save(tmp_path / "model.keras")
    restored = load_network(tmp_path / "model.keras")
    assert restored.get_config() == model.get_config()
    for one, other in zip(restored.list_layers(), model.list_layers(), strict=True):
        assert type(one) is type(other)
    contexts, _ = make_batch()
    np.testing.assert_array_equal(restored(contexts), model(contexts))


def build_random():
    """Return a network with dropout everywhere and negative samples."""
    return compose(
        V,
        order=5,
        embed=AveragedContext(V, 4, averages_after=(1, 2), word_dropout=0.2, name="embed"),
        hidden=DeepHidden(6, residual_blocks=1, layer_norm=True, dropout=0.2, name="hidden"),
        head=LinearHead(V, rank=3, name="prob"),
        objective=NoiseContrastive(5, held_out_mass=0.2, self_normalisation=0.1, seed=3),
    )


def build_energy():
    return compose_energy(V, order=5, objective=SampledSoftmax(num_sampled=5, seed=3))


@pytest.mark.parametrize(
    "build, make_optimizer",
    [
        (build_random, lambda: LazySGD(0.5)),
        pytest.param(build_energy, lambda: LazyAdagrad(0.1, 1e-4), marks=pytest.mark.long),
    ],
)
def test_a_loaded_network_trains_on_alike(build, make_optimizer, tmp_path):
    """Weights, optimiser, and the random numbers of dropout and of negative samples."""
    keras.utils.set_random_seed(1)
    model = build()
    contexts, targets = make_batch()
    model.compile(make_optimizer(), run_eagerly=True)  # tracing takes longer than an update
    model.set_unigram(np.bincount(targets, minlength=V))
    model.fit(contexts, targets, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    loaded.run_eagerly = True
    for one in (model, loaded):
        one.fit(contexts, targets, shuffle=False, verbose=0)
    kept = (one.weights + one.random_states() for one in (model, loaded))
    for left, right in zip(*kept, strict=True):
        np.testing.assert_array_equal(left.numpy(), right.numpy(), err_msg=left.path)


def test_a_loaded_network_has_the_same_weight_decay(tmp_path):
    """That of all but the biases: see `tests/training/test_optimizers.py`."""
    model = compose(V)
    optimizer = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["C"])
    model.compile(optimizer)
    optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    decays = loaded.optimizer._use_weight_decay
    assert {weight.name for weight in loaded.weights if not decays(weight)} == {"C"}


def test_weights_of_another_layer_are_refused(tmp_path):
    build_network("adaptive / likelihood").save_weights(tmp_path / "adaptive.weights.h5")
    with pytest.raises(ValueError, match=r"must have the weights \['U', 'b'\]"):
        build_network("linear / likelihood").load_weights(tmp_path / "adaptive.weights.h5")
