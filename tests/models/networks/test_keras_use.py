"""Networks and their layers as Keras parts: exports, named inputs, stock models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import ContextEmbedding, LinearHead, TanhHidden
from tests.every_network import N, V, add_log_q, build_network, make_contexts, make_targets

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


def test_a_hybrid_trains_and_predicts_on_named_arrays():
    model = build_network("hybrid")
    inputs = add_log_q(model, {"contexts": CONTEXTS})
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"], run_eagerly=True)
    data = (inputs, make_targets(model, CONTEXTS))
    history = model.fit(*data, validation_data=data, epochs=2, verbose=0).history
    assert history["val_loss"][1] < history["val_loss"][0]
    rows = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)


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
