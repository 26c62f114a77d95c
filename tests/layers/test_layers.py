"""What every layer keeps: its configuration, weight decay on matrices only; the names that stand for layers."""

import keras
import numpy as np
import pytest

import keras_nplm as nplm

V, W = 30, 6
CONTEXT = dict(vocabulary_size=V, embedding_dim=3, weight_decay=0.3, word_dropout=0.1, dropout=0.4)
DEEP = dict(hidden_units=W, weight_decay=0.3, activation="gelu", residual_blocks=2, layer_norm=True, dropout=0.1)
SAMPLED = dict(vocabulary_size=V, num_sampled=8, proposal="log-uniform", held_out_mass=0.1, self_normalisation=0.2)
LAYERS = [
    (nplm.ContextEmbedding, CONTEXT),
    (nplm.AveragedContext, CONTEXT | dict(averages_after=(2, 4))),
    (nplm.TanhHidden, dict(hidden_units=5, weight_decay=0.3, dropout=0.2)),
    (nplm.DeepHidden, DEEP),
    (nplm.ResidualBlock, dict(activation="silu", layer_norm=True, dropout=0.2, weight_decay=0.3)),
    (nplm.DirectConnection, dict(units=7, weight_decay=0.3)),
    (nplm.FullSoftmax, dict(vocabulary_size=V, weight_decay=0.3, rank=2, held_out_mass=0.1, self_normalisation=0.2)),
    (nplm.FullSoftmax, dict(vocabulary_size=V, shortlist_size=20, outside_output=True)),
    (nplm.FullSoftmax, dict(vocabulary_size=V, tied=True)),
    (nplm.AdaptiveSoftmax, dict(vocabulary_size=V, weight_decay=0.3, cutoffs=(7, 16))),
    (nplm.SampledSoftmax, SAMPLED | dict(seed=3, rank=2)),
    (nplm.NoiseContrastive, SAMPLED | dict(seed=3)),
    (nplm.EnergyOutput, SAMPLED | dict(seed=3, hidden_units=4, dropout=0.2)),
]


@pytest.mark.parametrize("kind, options", LAYERS)
def test_configuration_makes_the_same_layer(kind, options):
    first = kind(**options, name="layer")
    serialised = keras.saving.serialize_keras_object(first)
    for second in (kind.from_config(first.get_config()), keras.saving.deserialize_keras_object(serialised)):
        assert type(second) is kind and second.get_config() == first.get_config() and second.name == "layer"
        assert {option: getattr(second, option) for option in options} == options


@pytest.mark.parametrize("kind, options", [row for row in LAYERS if "weight_decay" in row[1]])
def test_weight_decay_is_on_matrices_only(kind, options):
    layer = kind(**options)
    layer.build((None, W))
    vectors = [weight for weight in layer.trainable_weights if len(weight.shape) == 1]
    for weight in vectors:
        weight.assign(np.ones(weight.shape))
    squares = sum(np.square(weight.numpy()).sum() for weight in layer.trainable_weights if len(weight.shape) == 2)
    np.testing.assert_allclose(sum(map(float, layer.losses)), 0.15 * squares, rtol=1e-5)
    assert getattr(layer, "biases", vectors) == vectors


def test_direct_connection_computes_W_x():
    layer, x = nplm.DirectConnection(V), np.random.default_rng(0).normal(size=(7, W)).astype(np.float32)
    np.testing.assert_allclose(layer(x), x @ layer.W.numpy().T, atol=1e-6)


@pytest.mark.parametrize("kind", [nplm.TanhHidden, nplm.ResidualBlock])
def test_dropout_leaves_out_hidden_units_or_what_a_block_adds(kind):
    keras.utils.set_random_seed(0)
    layer = kind(W, dropout=0.5) if kind is nplm.TanhHidden else kind(dropout=0.5)
    a = np.full((200, W), 0.7, np.float32)
    given = a if kind is nplm.ResidualBlock else 0
    plain, dropped = layer(a).numpy() - given, layer(a, training=True).numpy() - given
    kept = np.abs(dropped) > 1e-5
    assert 0.4 < kept.mean() < 0.6
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
