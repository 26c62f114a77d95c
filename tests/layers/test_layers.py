"""What every layer keeps: its configuration, which weights are biases; dropout."""

import keras
import numpy as np
import pytest

from keras_nplm import (
    AdaptiveHead,
    AveragedContext,
    ContextEmbedding,
    DeepHidden,
    DirectConnection,
    EnergyHead,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    Pointer,
    ResidualBlock,
    SampledSoftmax,
    SpelledContext,
    TanhHidden,
)
from keras_nplm.layers.heads.base import Head
from keras_nplm.layers.hidden import NoHidden

V = 30  # words
W = 6  # features
RNG = np.random.default_rng(0)
C = RNG.normal(size=(V, 3))
SPELLED = dict(near_characters=3, spelled_words=2, spelling_bits=4, separator=5)
CONTEXT = dict(vocabulary_size=V, embedding_dim=3, weight_decay=0.3, word_dropout=0.1, dropout=0.4)
SAMPLED = dict(
    num_sampled=8, proposal="log-uniform", held_out_mass=0.1, self_normalisation=0.2, seed=3
)
LAYERS = [
    (ContextEmbedding, CONTEXT),
    (AveragedContext, dict(averages_after=(2, 4), **CONTEXT)),
    (SpelledContext, dict(**SPELLED, **CONTEXT)),
    (TanhHidden, dict(hidden_units=5, weight_decay=0.3, dropout=0.2)),
    (
        DeepHidden,
        dict(
            hidden_units=W,
            weight_decay=0.3,
            activation="gelu",
            residual_blocks=2,
            layer_norm=True,
            dropout=0.1,
        ),
    ),
    (ResidualBlock, dict(activation="silu", layer_norm=True, dropout=0.2, weight_decay=0.3)),
    (NoHidden, {}),
    (DirectConnection, dict(units=7, weight_decay=0.3)),
    (LinearHead, dict(vocabulary_size=V, weight_decay=0.3, rank=2)),
    (LinearHead, dict(vocabulary_size=V, weight_decay=0.3, num_outputs=24)),
    (LinearHead, dict(vocabulary_size=V, tied=True)),
    (AdaptiveHead, dict(vocabulary_size=V, weight_decay=0.3, cutoffs=(7, 16))),
    (EnergyHead, dict(vocabulary_size=V, hidden_units=4, dropout=0.2, weight_decay=0.3)),
    (Likelihood, dict(held_out_mass=0.1, self_normalisation=0.2)),
    (SampledSoftmax, SAMPLED),
    (NoiseContrastive, SAMPLED),
    (Pointer, dict(weight_decay=0.3)),
]


@pytest.mark.parametrize("kind, options", LAYERS)
def test_configuration_makes_the_same_layer(kind, options):
    first = kind(**options, name="layer")
    serialised = keras.saving.serialize_keras_object(first)
    copies = [
        kind.from_config(first.get_config()),
        keras.saving.deserialize_keras_object(serialised),
    ]
    for second in copies:
        assert type(second) is kind
        assert second.name == "layer"
        assert second.get_config() == first.get_config()
        for option, value in options.items():
            assert getattr(second, option) == value


def build(kind: type, options: dict) -> keras.layers.Layer:
    """Return a layer with its weights, for features of width W."""
    layer = kind(**options)
    if isinstance(layer, Head):
        layer.tie(keras.Variable(C, autocast=False))
    if isinstance(layer, Pointer):
        layer.build((None, W), (None, 9, 3))
    else:
        layer.build((None, W))
    return layer


@pytest.mark.parametrize("kind, options", LAYERS)
def test_biases_are_the_vectors_without_weight_decay(kind, options):
    layer = build(kind, options)
    vectors = {weight.name for weight in layer.trainable_weights if len(weight.shape) == 1}
    # v of the pointer and of the energies multiplies vectors, as a row of a matrix does
    expected = vectors - {"v"}
    if kind is SpelledContext:
        expected.add("S")
    assert {weight.name for weight in layer.biases} == expected


@pytest.mark.parametrize("kind, options", [row for row in LAYERS if issubclass(row[0], Head)])
def test_a_head_in_half_precision_does_not_round_its_features(kind, options):
    features = RNG.normal(size=(9, W)).astype(np.float32)
    keras.utils.set_random_seed(0)
    plain = build(kind, options)
    half = build(kind, options | {"dtype": "bfloat16"})
    half.set_weights(plain.get_weights())
    np.testing.assert_array_equal(half(features), plain(features))


def find_kept(plain: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Return what dropout has kept; what it keeps is doubled."""
    kept = np.abs(dropped) > 1e-5
    np.testing.assert_allclose(dropped[kept], 2 * plain[kept], rtol=1e-3, atol=1e-5)
    return kept


@pytest.mark.parametrize("kind", [TanhHidden, ResidualBlock])
def test_dropout_leaves_out_units_or_what_a_block_adds(kind):
    keras.utils.set_random_seed(0)
    layer = TanhHidden(W, dropout=0.5) if kind is TanhHidden else ResidualBlock(dropout=0.5)
    x = np.full((200, W), 0.7, np.float32)
    skipped = 0 if kind is TanhHidden else x
    kept = find_kept(layer(x).numpy() - skipped, layer(x, training=True).numpy() - skipped)
    assert 0.4 < kept.mean() < 0.6
