"""The energy-based output: its formula, losses and gradients against NumPy, and what can be done with it."""

import functools
import json
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_nplm.layers.energy_ops as energies
from keras_nplm import (
    NPLM,
    EncodedCorpus,
    EnergyOutput,
    InputError,
    LanguageModel,
    LazyAdagrad,
    Vocabulary,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_nplm.cli.main import main
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.models.nplm_file import load_network
from keras_nplm.models.self_normalised import SelfNormalised
from keras_nplm.serving.graphs import build_graph

V, M, H, N = 40, 3, 5, 4
CONTEXTS = np.array([[4, 5, 6], [0, 0, 7], [6, 39, 4], [0, 0, 0], [9, 9, 9]], np.int32)
TARGETS = np.array([8, 4, 39, 8, 1], np.int32)


def _model(**options) -> NPLM:
    keras.utils.set_random_seed(0)
    model = NPLM(V, N, M, H, output_layer=EnergyOutput(V, H, **({"num_sampled": 16, "seed": 2} | options)))
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.8, weight.shape))
    return model


def _weights(model) -> dict[str, np.ndarray]:
    weights = {"C": model.embed.C} | {name: getattr(model.prob, name) for name in "Hdvb"}
    weights = {name: weight.numpy().astype(np.float64) for name, weight in weights.items()}
    weights["C"][0] = 0  # <pad> adds a zero vector
    return weights


def _paper_probabilities(model) -> np.ndarray:
    """P(w | context) by section 5.1 as it stands: signs as there, the biases of the context's words included."""
    w = _weights(model)
    v, b = -w["v"], -w["b"]
    probabilities = np.zeros((len(CONTEXTS), V))
    for row, context in zip(probabilities, CONTEXTS, strict=True):
        for target in range(V):
            x = np.concatenate([w["C"][word] for word in [*context, target]])
            energy = v @ np.tanh(w["d"] + x @ w["H"]) + b[target] + sum(b[word] for word in context)
            row[target] = np.exp(-energy)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def test_probabilities_are_those_of_the_papers_energy():
    model = _model()
    expected = _paper_probabilities(model)
    np.testing.assert_allclose(np.exp(model.next_log_probs(CONTEXTS)), expected, rtol=1e-4)
    chosen = expected[np.arange(len(TARGETS)), TARGETS]
    np.testing.assert_allclose(np.exp(model.log_prob(CONTEXTS, TARGETS)), chosen, rtol=1e-4)
    scores = SelfNormalised(model)
    np.testing.assert_allclose(scores.log_prob(CONTEXTS, TARGETS), _chosen(model(CONTEXTS)), rtol=1e-4)
    np.testing.assert_allclose(np.exp(scores.next_log_probs(CONTEXTS)), expected, rtol=1e-4)


def _chosen(logits) -> np.ndarray:
    return np.asarray(logits)[np.arange(len(TARGETS)), TARGETS]


def test_it_has_no_matrix_of_words_but_C():
    model = NPLM(V, N, M, H, output_layer="energy")
    assert sum(weight.numpy().size for weight in model.trainable_weights) == V * (M + 1) + H * (N * M + 2)
    assert {bias.name for bias in model.prob.biases} == {"b", "d"}  # which weight decay spares
    assert sorted(tuple(weight.shape) for weight in model.trainable_weights if V in weight.shape) == [(V,), (V, M)]


@pytest.mark.parametrize("size, scales", [(40, (1, 1)), (700, (1, 1)), (700, (30, 30)), (40, (50, 1)), (40, (1, 50))])
def test_the_normaliser_in_blocks(size, scales):
    """One tile and several, a block that is not full, and hidden units whose exponentials would overflow."""
    rng = np.random.default_rng(0)
    contexts, words = (
        rng.normal(0, scale, (rows, H)).astype(np.float32) for rows, scale in zip((19, size), scales, strict=True)
    )
    v, bias = (keras.Variable(rng.normal(0, 2, shape).astype(np.float32), autocast=False) for shape in (H, size))
    logits = np.tanh(contexts[:, None].astype(np.float64) + words) @ v.numpy() + bias.numpy()
    found = energies.energy_log_normaliser(tf.constant(contexts), tf.constant(words), v, bias)
    np.testing.assert_allclose(found, np.log(np.exp(logits).sum(axis=1)), rtol=1e-5, atol=2e-5)
    contexts[3, 2] = np.nan
    found = energies.energy_log_normaliser(tf.constant(contexts), tf.constant(words), v, bias)
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]


def test_the_gradient_over_all_words():
    rng = np.random.default_rng(0)
    z, t, v = rng.normal(size=(7, H)), rng.normal(size=(V, H)), rng.normal(size=H)
    upstream = rng.normal(size=(7, V))
    a = np.tanh(z[:, None] + t)  # [7, V, H]
    slope = upstream[:, :, None] * (1 - a**2) * v
    contexts, words = tf.constant(z, tf.float32), tf.constant(t, tf.float32)
    variable = keras.Variable(v.astype(np.float32), autocast=False)
    for function in (energies.all_energies, energies.energies):
        with tf.GradientTape() as tape:
            tape.watch([contexts, words])
            found = function(contexts, words, variable)
            total = tf.reduce_sum(found * upstream)
        np.testing.assert_allclose(found, a @ v, rtol=1e-4, atol=1e-5)
        gradients = tape.gradient(total, [contexts, words, variable.value])
        expected = slope.sum(axis=1), slope.sum(axis=0), np.einsum("ij,ijk->k", upstream, a)
        for gradient, wanted in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(gradient, wanted, rtol=1e-3, atol=1e-4)


def _importance_sampling(model, drawn, left=None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The losses and the gradient of their sum, from the weights exp(-E) / k Q of the target and the words drawn.

    `left`, [B, h], is what dropout leaves of the hidden units in each context.
    """
    w, log_q = _weights(model), model.prob.log_q.numpy().astype(np.float64)
    gradients, losses = {name: np.zeros_like(value) for name, value in w.items()}, []
    left = np.ones((len(CONTEXTS), H)) if left is None else left
    for context, target, kept in zip(CONTEXTS, TARGETS, left, strict=True):
        words = np.concatenate([[target], drawn])
        x = np.concatenate([np.tile(w["C"][context].ravel(), (len(words), 1)), w["C"][words]], axis=1)
        a = np.tanh(w["d"] + x @ w["H"]) * kept
        importance = np.exp(a @ w["v"] + w["b"][words] - log_q[words]) / len(drawn)
        share = importance / importance.sum()
        losses.append(-np.log(share[0]))
        dy = share - (np.arange(len(words)) == 0)  # of -ln P by y = -E: the estimate of P, less 1 for the target
        dz = dy[:, None] * w["v"] * kept * (1 - np.tanh(w["d"] + x @ w["H"]) ** 2)
        gradients["v"] += dy @ a
        gradients["d"] += dz.sum(axis=0)
        gradients["H"] += x.T @ dz
        np.add.at(gradients["b"], words, dy)
        dx = (dz @ w["H"].T).reshape(len(words), N, M)
        for rows, part in [*((np.full(len(words), c), dx[:, i]) for i, c in enumerate(context)), (words, dx[:, -1])]:
            np.add.at(gradients["C"], rows[rows > 0], part[rows > 0])
    return np.array(losses), gradients


def _loss_and_gradients(model, of):
    weights = {"C": model.embed.C} | {name: getattr(model.prob, name) for name in "Hdvb"}
    with tf.GradientTape() as tape:
        losses = of(model.features(CONTEXTS))
        total = tf.reduce_sum(losses)
    gradients = tape.gradient(total, [weight.value for weight in weights.values()])
    return losses, dict(zip(weights, gradients, strict=True))


@pytest.mark.parametrize("dropout", [False, True])
def test_training_is_importance_sampling_and_touches_few_rows(dropout):
    model = _model()
    twin = _model()  # whose first words are those that the model will draw
    drawn = np.asarray(twin.prob._draw(twin.prob.noise, twin.prob._strata(16)))
    left = np.random.default_rng(4).integers(0, 2, (len(CONTEXTS), H)) * 2.0 if dropout else None

    def of(features):
        features = features if left is None else tf.concat([features, tf.constant(left, tf.float32)], axis=1)
        return model.prob.training_loss(features, TARGETS)[0]

    losses, gradients = _loss_and_gradients(model, of)
    expected, expected_gradients = _importance_sampling(model, drawn, left)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert isinstance(gradients["C"], tf.IndexedSlices) and isinstance(gradients["b"], tf.IndexedSlices)
    touched = set(gradients["C"].indices.numpy().tolist())
    assert touched == {*CONTEXTS.ravel().tolist(), *TARGETS.tolist(), *drawn.tolist()}
    for name, wanted in expected_gradients.items():
        np.testing.assert_allclose(tf.convert_to_tensor(gradients[name]), wanted, atol=1e-4, err_msg=name)


def test_dropout_leaves_hidden_units_out_in_training_alone():
    model = NPLM(V, N, M, H, output_layer="energy", dropout=0.5)
    trained, asked = (model.features(CONTEXTS, training=training).numpy() for training in (True, False))
    assert trained.shape == asked.shape == (len(CONTEXTS), (N - 1) * M + H)
    assert set(trained[:, -H:].ravel()) == {0, 2} and set(asked[:, -H:].ravel()) == {1}
    np.testing.assert_allclose(np.exp(model.next_log_probs(CONTEXTS)).sum(axis=1), 1, rtol=1e-5)


def test_of_many_words_drawn_the_gradient_is_that_of_the_likelihood():
    model = _model(num_sampled=20_000, proposal="log-uniform")
    counts = np.random.default_rng(0).integers(1, 9, V)
    counts[[0, 2, 3]] = 0
    bias = model.prob.b.numpy()
    model.prob.set_unigram(counts)
    model.prob.b.assign(np.where(counts > 0, bias, -30))  # words that are never drawn have no mass
    _, sampled = _loss_and_gradients(model, lambda features: model.prob.training_loss(features, TARGETS)[0])
    _, exact = _loss_and_gradients(model, lambda f: model.prob.negative_log_likelihood(model.prob(f), TARGETS)[0])
    for name, wanted in exact.items():
        np.testing.assert_allclose(
            tf.convert_to_tensor(sampled[name]), tf.convert_to_tensor(wanted), atol=0.01, err_msg=name
        )


def test_a_lazy_step_adds_what_a_row_gets_as_context_and_as_target():
    model = _model()
    drawn = np.asarray((twin := _model()).prob._draw(twin.prob.noise, twin.prob._strata(16)))
    before, gradient = model.embed.C.numpy(), _importance_sampling(model, drawn)[1]["C"] / len(TARGETS)
    model.compile(LazyAdagrad(0.1, initial_accumulator_value=1e-3))
    model.fit(CONTEXTS, TARGETS, verbose=0)
    expected = before - 0.1 * gradient / np.sqrt(1e-3 + gradient**2 + 1e-7)
    np.testing.assert_allclose(model.embed.C.numpy(), expected, atol=1e-4)


_shared = functools.cache(_model)


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000), st.floats(0.01, 4))
def test_probabilities_sum_to_one(seed, scale):
    model = _shared()
    rng = np.random.default_rng(seed)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, scale, weight.shape))
    log_probs = model.next_log_probs(CONTEXTS)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1, rtol=1e-4)
    np.testing.assert_allclose(model.log_prob(CONTEXTS, TARGETS), _chosen(log_probs), rtol=1e-3, atol=1e-4)


def test_what_does_not_go_with_it_is_refused(tmp_path):
    with pytest.raises(InputError, match="`hidden_units` must be the output's, 5"):
        NPLM(V, hidden_units=6, output_layer=EnergyOutput(V, 5))
    with pytest.raises(InputError, match="`hidden_units` must be 1 or more"):
        EnergyOutput(V, 0)
    for wrong in ({"direct_connections": True}, {"output_rank": 2}, {"tied_output": True}):
        with pytest.raises(InputError, match=f"`{next(iter(wrong))}` must be"):
            NPLM(V, output_layer="energy", **wrong)
    with pytest.raises(InputError, match="needs C for its targets"):
        EnergyOutput(V, 5).build((None, 9))


def test_it_is_read_without_trust_and_served(tmp_path):
    model = _model()
    model.save(tmp_path / "model.keras")
    loaded = load_network(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.next_log_probs(CONTEXTS), model.next_log_probs(CONTEXTS))
    graph = build_graph(loaded)
    log_prob = tf.function(graph.log_prob)
    np.testing.assert_allclose(log_prob(CONTEXTS, TARGETS), model.log_prob(CONTEXTS, TARGETS), rtol=1e-4)
    definition = log_prob.get_concrete_function(CONTEXTS, TARGETS).graph.as_graph_def()
    assert "_XlaMustCompile" not in str(definition)  # a server may lack XLA


@pytest.mark.parametrize("write, ending", [(export_litert, "tflite"), (export_onnx, "onnx")])
def test_devices_get_it_too(write, ending, tmp_path):
    runtime = {"tflite": "ai_edge_litert.interpreter", "onnx": "onnxruntime"}[ending]
    runtime = pytest.importorskip(runtime, reason=f"{runtime} is needed")
    if ending == "onnx":
        pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    model, path = _model(), str(tmp_path / f"next.{ending}")
    vocabulary = Vocabulary.build([[f"word{i}"] for i in range(V - 4)], min_count=1)
    write(LanguageModel(model, vocabulary, "words", "stream"), path)
    if ending == "onnx":
        (found,) = runtime.InferenceSession(path).run(None, {"context_ids": CONTEXTS})
    else:
        found = runtime.Interpreter(path).get_signature_runner()(context_ids=CONTEXTS)["log_probs"]
    np.testing.assert_allclose(found, model.next_log_probs(CONTEXTS), atol=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A model of a text in which the word before says much of the next."""
    directory, random = tmp_path_factory.mktemp("energy"), np.random.default_rng(0)
    words = [f"{'abcdefgh'[i]} {'stuvwxyz'[i]}" for i in random.integers(0, 8, 4000)]
    lines = [" ".join(words[start : start + 5]) for start in range(0, len(words), 5)]
    (directory / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = "--output-layer energy --hidden-units 8 --embedding-dim 4 --order 3 --epochs 2 --batch-size 64 --seed 3"
    options += " --num-sampled 16 --optimizer adagrad --initial-accumulator 1e-5 --learning-rate 0.2 --dropout 0.01"
    options += " --self-normalisation 0.1 --boundary stream"
    text = ["--train", str(directory / "text.txt")]
    assert main(["train", *text, *options.split(), "--output", str(directory / "model")]) == 0
    return directory / "model"


def test_the_command_trains_it_and_beats_the_unigram_model(trained):
    encoded = EncodedCorpus.load(trained / "corpus")
    counts = encoded.frequencies()
    test = extract_ngrams(encoded.ids("test"), 3, "stream")[:, -1]
    unigram = np.exp(-np.log(counts[test] / counts[4:].sum()).mean())  # 16
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["test"]["perplexity"] < 0.6 * unigram
    assert metrics["test"]["ln_z"]["mean_absolute"] < 1
    assert metrics["parameters"] == encoded.vocabulary_size * 5 + 8 * (3 * 4 + 2)
    assert "h = 8" in (trained / "report.html").read_text(encoding="utf-8")


def test_its_directory_is_scored_served_and_its_shape_is_checked(trained, tmp_path):
    model = LanguageModel.load(trained)
    version = export_saved_model(model, tmp_path / "served")
    served = tf.saved_model.load(str(version)).signatures["log_prob_ids"]
    contexts, targets = np.array([[4, 5], [0, 7]], np.int32), np.array([6, 9], np.int32)
    found = served(context_ids=tf.constant(contexts), target_ids=tf.constant(targets))["log_prob"]
    np.testing.assert_allclose(found, model.model.log_prob(contexts, targets), rtol=1e-4)
    damaged = tmp_path / "model.keras"
    with zipfile.ZipFile(trained / "model.keras") as source, zipfile.ZipFile(damaged, "w") as target:
        for name in source.namelist():
            part = source.read(name)
            target.writestr(name, part.replace(b'"hidden_units": 8', b'"hidden_units": 9', 1))
    with pytest.raises(InputError, match="is not a whole model file"):
        load_network(damaged)
