"""Networks and their layers as Keras parts: every dtype, exports, stock models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    ContextEmbedding,
    HybridNetwork,
    Likelihood,
    LinearHead,
    NoiseContrastive,
    PointerNetwork,
    TanhHidden,
)
from keras_nplm.io.errors import InputError
from keras_nplm.models.dynamic.network import (
    DynamicNPLM,
    DynamicSettings,
    measure_mean_squares,
)

V = 30
ORDER = 4
M = 6
H = 8
RNG = np.random.default_rng(0)
CONTEXTS = RNG.integers(4, V, (64, ORDER - 1)).astype(np.int32)
TARGETS = RNG.integers(4, V, 64).astype(np.int32)
LOG_Q = np.log(RNG.dirichlet(np.ones(V), 64)).astype(np.float32)


def randomise(model):
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


def build_network(kind, objective, dtype="float32", weight_decay=0.0):
    options = dict(weight_decay=weight_decay, dtype=dtype)
    return randomise(
        kind(
            order=ORDER,
            embed=ContextEmbedding(V, M, name="embed", **options),
            hidden=TanhHidden(H, name="hidden", **options),
            head=LinearHead(V, name="prob", **options),
            objective=objective,
        )
    )


def build_nplm():
    return randomise(NPLM(V, ORDER, M, H))


def build_hybrid():
    return build_network(HybridNetwork, Likelihood())


def check_dtype(model, dtype):
    rows = np.arange(64)
    chosen = model.log_prob(CONTEXTS, TARGETS)
    of_distributions = model.next_log_probs(CONTEXTS)[rows, TARGETS]
    np.testing.assert_allclose(chosen, of_distributions, atol=1e-4)
    probabilities = model(CONTEXTS).numpy().astype(np.float64)
    # some processors round bfloat16 less often in a graph
    atol = 1e-4 if dtype == "float64" else 0.02
    np.testing.assert_allclose(np.log(probabilities)[rows, TARGETS], chosen, atol=atol)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    model.compile("sgd", run_eagerly=True)
    squares = measure_mean_squares(model, np.column_stack([CONTEXTS, TARGETS]), 16)
    dynamic = DynamicNPLM(model, DynamicSettings(rule="rms", chunk=16), squares)
    assert np.isfinite(dynamic.log_prob(CONTEXTS, TARGETS)).all()
    data = (CONTEXTS, TARGETS)
    history = model.fit(*data, validation_data=data, verbose=0).history
    for values in history.values():
        assert np.isfinite(values).all()


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "float64", "bfloat16"])
def test_every_dtype_trains_by_likelihood(dtype):
    objective = Likelihood(dtype=dtype)
    check_dtype(build_network(PointerNetwork, objective, dtype, weight_decay=0.1), dtype)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "float64"])
def test_every_dtype_trains_on_negative_samples(dtype):
    objective = NoiseContrastive(num_sampled=9, seed=1, dtype=dtype)
    check_dtype(build_network(PointerNetwork, objective, dtype), dtype)


def test_export_needs_no_signature(tmp_path):
    model = build_nplm()
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(tf.constant(CONTEXTS)), model(CONTEXTS), rtol=1e-5)


def test_export_of_a_hybrid_has_named_inputs(tmp_path):
    model = build_hybrid()
    inputs = {"contexts": tf.constant(CONTEXTS), "log_q": tf.constant(LOG_Q)}
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve(inputs), model(inputs), rtol=1e-5)
    # the number of contexts is free
    few = {name: tensor[:3] for name, tensor in inputs.items()}
    np.testing.assert_allclose(served.serve(few), model(few), rtol=1e-5)


def test_tensorflow_saves_a_network(tmp_path):
    model = build_nplm()
    tf.saved_model.save(model, tmp_path / "saved")
    serve = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    [rows] = serve(tf.constant(CONTEXTS)).values()
    np.testing.assert_allclose(rows, model(CONTEXTS), rtol=1e-5)


def test_quantize_says_what_quantises():
    with pytest.raises(InputError, match=r"export DIR model.tflite --quantise.*export_litert\("):
        build_nplm().quantize("int8")


def test_a_hybrid_trains_and_predicts_on_named_arrays():
    model = build_hybrid()
    inputs = {"contexts": CONTEXTS, "log_q": LOG_Q}
    model.compile(keras.optimizers.Adam(0.01), metrics=["accuracy"], run_eagerly=True)
    data = (inputs, TARGETS)
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
    inputs = keras.Input((ORDER - 1,))
    x = ContextEmbedding(300, 5)(inputs)
    y = LinearHead(300)(TanhHidden(7)(x))
    model = keras.Model(inputs, keras.layers.Softmax()(y))
    rows = model(CONTEXTS)
    assert rows.shape == (64, 300)
    np.testing.assert_allclose(np.sum(rows, axis=1), 1, rtol=1e-5)
