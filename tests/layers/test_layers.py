"""What every layer keeps: its configuration, weight decay on matrices only; the names that stand for layers."""

import keras
import numpy as np
import pytest

import keras_nplm as nplm
from keras_nplm.layers.build import build_hidden

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


def test_names_of_hidden_layers():
    assert type(build_hidden("tanh", 5)) is nplm.TanhHidden
    layer = build_hidden("gelu", 5, weight_decay=0.1, dropout=0.2)
    assert type(layer) is nplm.DeepHidden and layer.name == "hidden"
    assert (layer.activation, layer.weight_decay, layer.dropout) == ("gelu", 0.1, 0.2)
    assert build_hidden(None, 5) is None and build_hidden("tanh", 0) is None and build_hidden(layer, 100) is layer
