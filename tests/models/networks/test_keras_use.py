"""Layers as Keras parts: ids of any type, and stock models."""

import keras
import numpy as np
import pytest

from keras_nplm import ContextEmbedding, LinearHead, TanhHidden
from tests.every_network import N, V, make_contexts

CONTEXTS = make_contexts()


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "int16"])
def test_layers_accept_float_ids_and_any_integer(dtype):
    # more words than a byte has
    embed = ContextEmbedding(300, 5)
    expected = np.asarray(embed(CONTEXTS))
    np.testing.assert_array_equal(np.asarray(embed(CONTEXTS.astype(dtype))), expected)


def test_layers_make_a_functional_model():
    # of floats, Keras's default
    inputs = keras.Input((N - 1,))
    outputs = LinearHead(V)(TanhHidden(7)(ContextEmbedding(V, 5)(inputs)))
    rows = keras.Model(inputs, outputs)(CONTEXTS)
    np.testing.assert_allclose(np.sum(rows, axis=1), np.ones(len(CONTEXTS)), rtol=1e-5)
