"""NPLM and its layers as ordinary Keras parts: every dtype, exports, stock models, misuse with a clear error."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, ContextEmbedding, FullSoftmax, InputError, Perplexity, TanhHidden
from keras_nplm.models.dynamic.network import DynamicNPLM, DynamicSettings, measure_mean_squares

V, ORDER = 30, 4
RNG = np.random.default_rng(0)
CONTEXTS = RNG.integers(4, V, (64, ORDER - 1)).astype(np.int32)
TARGETS = RNG.integers(4, V, 64).astype(np.int32)


def _build_model(**options) -> NPLM:
    model = NPLM(V, ORDER, embedding_dim=6, hidden_units=8, **options)
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


@pytest.mark.parametrize("output", ["full", pytest.param("nce", marks=pytest.mark.long)])
@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_every_dtype_trains_and_its_probabilities_agree(output, dtype):
    model = _build_model(output=output, dtype=dtype, pointer=True, weight_decay=0.1 if output == "full" else 0.0)
    features = model.features(CONTEXTS)  # an output computes copies in float32 at least
    np.testing.assert_allclose(model.prob(features), np.exp(model.prob.log_probs(features)), rtol=1e-5)
    chosen = model.log_prob(CONTEXTS, TARGETS)
    np.testing.assert_allclose(chosen, model.next_log_probs(CONTEXTS)[np.arange(64), TARGETS], atol=1e-4)
    probabilities = model(CONTEXTS).numpy().astype(np.float64)
    atol = 1e-4 if dtype == "float64" else 0.02  # some processors round bfloat16 less often in a graph
    np.testing.assert_allclose(np.log(probabilities)[np.arange(64), TARGETS], chosen, atol=atol)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    model.compile("sgd", run_eagerly=True)
    squares = measure_mean_squares(model, np.column_stack([CONTEXTS, TARGETS]), 16)
    dynamic = DynamicNPLM(model, DynamicSettings(rule="rms", chunk=16), squares)
    assert np.isfinite(dynamic.log_prob(CONTEXTS, TARGETS)).all()
    history = model.fit(CONTEXTS, TARGETS, validation_data=(CONTEXTS, TARGETS), verbose=0).history
    assert np.isfinite([value for values in history.values() for value in values]).all()


def test_export_needs_no_signature(tmp_path):
    model = _build_model()
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(tf.constant(CONTEXTS)), model(CONTEXTS), rtol=1e-5)
    tf.saved_model.save(model, tmp_path / "saved")
    serve = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    np.testing.assert_allclose(*serve(tf.constant(CONTEXTS)).values(), model(CONTEXTS), rtol=1e-5)  # int32


def test_layers_accept_float_ids_and_any_integer():
    embed = ContextEmbedding(300, 5)  # more words than a byte has
    expected = np.asarray(embed(CONTEXTS))
    for dtype in ("float32", "int64", "uint8", "int16"):
        np.testing.assert_array_equal(np.asarray(embed(CONTEXTS.astype(dtype))), expected)
    inputs = keras.Input((ORDER - 1,))  # of floats, Keras's default
    model = keras.Model(inputs, FullSoftmax(300)(TanhHidden(7)(embed(inputs))))
    assert model(CONTEXTS).shape == (64, 300)


@pytest.mark.parametrize("from_logits", [False, True])
def test_perplexity_is_a_metric_of_any_model(from_logits):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(V, activation=None if from_logits else "softmax")(inputs))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile("sgd", loss, metrics=[Perplexity(from_logits=from_logits)])
    x = RNG.normal(size=(64, 4)).astype(np.float32)
    stop = keras.callbacks.EarlyStopping("perplexity", patience=1)  # finds by itself that lower is better
    history = model.fit(x, TARGETS, batch_size=64, callbacks=[stop], verbose=0).history
    np.testing.assert_allclose(np.log(history["perplexity"]), history["loss"], rtol=1e-5)
    assert stop.monitor_op is keras.ops.less


def test_ids_out_of_range_stop_training():
    model = _build_model()
    model.compile("sgd", run_eagerly=True)
    for wrong in (V, -1):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s)`context_ids` must be 0 to 29.*{wrong}"):
            model.fit(np.where(CONTEXTS[0, 0] == CONTEXTS, wrong, CONTEXTS), TARGETS, verbose=0)
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s)`target_ids` must be 0 to 29.*{wrong}"):
            model.evaluate(CONTEXTS, np.full_like(TARGETS, wrong), verbose=0)


@pytest.mark.parametrize("shape", [None, [None, None]])
def test_data_of_unknown_width_is_refused(shape):
    spec = tf.TensorSpec(shape, tf.int32), tf.TensorSpec([None], tf.int32)
    data = tf.data.Dataset.from_generator(lambda: [(CONTEXTS, TARGETS)], output_signature=spec)
    model = _build_model()
    model.compile("sgd")
    with pytest.raises(InputError, match="`x` must be one array of ids of known width"):
        model.fit(data, shuffle=False, verbose=0)


def test_replicas_fit_save_and_summarise(tmp_path):
    """`fit` under a strategy builds the metrics, and a layer without weights that nothing has called."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = _build_model(pointer=True, hidden=keras.Sequential([keras.layers.Dense(8), keras.layers.ReLU()]))
        model.compile("sgd", metrics=["accuracy"])
    data = CONTEXTS, TARGETS
    history = model.fit(*data, validation_data=data, batch_size=30, shuffle=False, verbose=0).history
    assert set(history) == {f"{prefix}{name}" for prefix in ("", "val_") for name in ("loss", "perplexity", "accuracy")}
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded.evaluate(*data, verbose=0), model.evaluate(*data, verbose=0), rtol=1e-5)
    lines = []
    loaded.summary(print_fn=lines.append)
    assert f"{model.count_params():,}" in "\n".join(lines)
