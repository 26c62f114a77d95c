"""Networks and layers as Keras parts: exports, ids of any type, and stock models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import ContextEmbedding, DirectConnection, LinearHead, TanhHidden
from tests.every_network import N, V, add_log_q, build_network, make_contexts

CONTEXTS = make_contexts()


@pytest.mark.parametrize("name", ["paper", "hybrid"])
def test_export_needs_no_signature(name, tmp_path):
    model = build_network(name)
    inputs = tf.constant(CONTEXTS)
    if name == "hybrid":
        named = add_log_q(model, {"contexts": CONTEXTS})
        inputs = {"contexts": inputs, "log_q": tf.constant(named["log_q"], tf.float32)}
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    few = keras.tree.map_structure(lambda tensor: tensor[:3], inputs)
    for given in (inputs, few):
        np.testing.assert_allclose(served.serve(given), model(given), rtol=1e-5)


def test_tensorflow_saves_a_network(tmp_path):
    model = build_network("paper")
    tf.saved_model.save(model, tmp_path / "saved")
    serve = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    [rows] = serve(tf.constant(CONTEXTS)).values()
    np.testing.assert_allclose(rows, model(CONTEXTS), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "int16"])
def test_layers_accept_float_ids_and_any_integer(dtype):
    # more words than a byte has
    embed = ContextEmbedding(300, 5)
    expected = np.asarray(embed(CONTEXTS))
    np.testing.assert_array_equal(np.asarray(embed(CONTEXTS.astype(dtype))), expected)


def test_layers_make_a_functional_model():
    # of floats, Keras's default
    inputs = keras.Input((N - 1,))
    x = ContextEmbedding(V, 5)(inputs)
    direct = DirectConnection(V)
    rows, past = keras.Model(inputs, [LinearHead(V)(TanhHidden(7)(x)), direct(x)])(CONTEXTS)
    np.testing.assert_allclose(np.sum(rows, axis=1), np.ones(len(CONTEXTS)), rtol=1e-5)
    x = keras.Model(inputs, x)(CONTEXTS)
    np.testing.assert_allclose(past, np.asarray(x) @ np.asarray(direct.W).T, atol=1e-6)
