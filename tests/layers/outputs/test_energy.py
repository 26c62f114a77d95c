"""The energy-based output: its formula, losses and gradients against NumPy."""

import functools
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import NPLM, EncodedCorpus, EnergyOutput, InputError, LazyAdagrad
from keras_nplm.cli.main import main
from keras_nplm.data.ngram_arrays import extract_ngrams

V, M, H, N = 40, 3, 5, 4
CONTEXTS = np.array([[4, 5, 6], [0, 0, 7], [6, 39, 4], [0, 0, 0], [9, 9, 9]], np.int32)
TARGETS = np.array([8, 4, 39, 8, 1], np.int32)


def _model(**options) -> NPLM:
    keras.utils.set_random_seed(0)
    model = NPLM(V, N, M, output=EnergyOutput(V, H, **({"num_sampled": 16, "seed": 2} | options)))
    rng = np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.8, weight.shape))
    return model


def _letters(model) -> dict[str, keras.Variable]:
    return {"C": model.embed.C} | {name: getattr(model.prob, name) for name in "Hdvb"}


def _values(model) -> dict[str, np.ndarray]:
    values = {name: weight.numpy().astype(np.float64) for name, weight in _letters(model).items()}
    values["C"][0] = 0  # <pad> adds a zero vector
    return values


def _samples() -> np.ndarray:
    """The negative samples of the first step of `_model()`."""
    prob = _model().prob
    return np.asarray(prob._sample(prob.noise, prob._strata(16)))


def _paper_probabilities(model) -> np.ndarray:
    """P(w | context) by section 5.1 as it stands: signs as there, the biases of the context's words included."""
    w = _values(model)
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
    np.testing.assert_allclose(model(CONTEXTS), expected, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(np.exp(model.next_log_probs(CONTEXTS)), expected, rtol=1e-4)
    chosen = expected[np.arange(len(TARGETS)), TARGETS]
    np.testing.assert_allclose(np.exp(model.log_prob(CONTEXTS, TARGETS)), chosen, rtol=1e-4)


def test_C_is_the_only_matrix_with_a_row_per_word():
    model = NPLM(V, N, M, H, output="energy")
    assert sum(weight.numpy().size for weight in model.trainable_weights) == V * (M + 1) + H * (N * M + 2)
    assert {bias.name for bias in model.prob.biases} == {"b", "d"}  # no weight decay on these
    assert sorted(tuple(weight.shape) for weight in model.trainable_weights if V in weight.shape) == [(V,), (V, M)]
    assert model.hidden is None and model.hidden_units == model.prob.hidden_units == H


def _importance_sampling(model, samples, kept=None) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The losses and the gradient of their sum, from the weights exp(-E) / k Q of the target and the samples.

    `kept`, [B, h], is what dropout leaves of the hidden units in each context.
    """
    w, log_q = _values(model), model.prob.log_q.numpy().astype(np.float64)
    gradients, losses = {name: np.zeros_like(value) for name, value in w.items()}, []
    kept = np.ones((len(CONTEXTS), H)) if kept is None else kept
    for context, target, left in zip(CONTEXTS, TARGETS, kept, strict=True):
        words = np.concatenate([[target], samples])
        x = np.concatenate([np.tile(w["C"][context].ravel(), (len(words), 1)), w["C"][words]], axis=1)
        a = np.tanh(w["d"] + x @ w["H"]) * left
        importance = np.exp(a @ w["v"] + w["b"][words] - log_q[words]) / len(samples)
        share = importance / importance.sum()
        losses.append(-np.log(share[0]))
        dy = share - (np.arange(len(words)) == 0)  # of -ln P by y = -E: the estimate of P, less 1 for the target
        dz = dy[:, None] * w["v"] * left * (1 - np.tanh(w["d"] + x @ w["H"]) ** 2)
        gradients["v"] += dy @ a
        gradients["d"] += dz.sum(axis=0)
        gradients["H"] += x.T @ dz
        np.add.at(gradients["b"], words, dy)
        dx = (dz @ w["H"].T).reshape(len(words), N, M)
        for rows, part in [*((np.full(len(words), c), dx[:, i]) for i, c in enumerate(context)), (words, dx[:, -1])]:
            np.add.at(gradients["C"], rows[rows > 0], part[rows > 0])
    return np.array(losses), gradients


def _losses_and_gradients(model, losses_of) -> tuple:
    weights = _letters(model)
    with tf.GradientTape() as tape:
        losses = losses_of(model.features(CONTEXTS))
        total = tf.reduce_sum(losses)
    gradients = tape.gradient(total, [weight.value for weight in weights.values()])
    return losses, dict(zip(weights, gradients, strict=True))


@pytest.mark.parametrize("dropout", [False, True])
def test_training_is_importance_sampling_on_few_rows(dropout, monkeypatch):
    model, samples, kept = _model(dropout=0.5 * dropout), _samples(), None
    if dropout:  # of the same hidden units for the target and all samples of a context
        kept = np.random.default_rng(4).integers(0, 2, (len(CONTEXTS), H)) * 2.0
        monkeypatch.setattr(model.prob, "drop", lambda ones, training: ones * tf.constant(kept, tf.float32))
    losses, gradients = _losses_and_gradients(model, lambda features: model.prob.training_loss(features, TARGETS)[0])
    expected, expected_gradients = _importance_sampling(model, samples, kept)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert isinstance(gradients["C"], tf.IndexedSlices) and isinstance(gradients["b"], tf.IndexedSlices)
    touched = set(gradients["C"].indices.numpy().tolist())
    assert touched == {*CONTEXTS.ravel().tolist(), *TARGETS.tolist(), *samples.tolist()}
    for name, wanted in expected_gradients.items():
        np.testing.assert_allclose(tf.convert_to_tensor(gradients[name]), wanted, atol=1e-4, err_msg=name)


def test_dropout_leaves_out_hidden_units_in_training():
    prob = NPLM(V, N, M, H, output="energy", dropout=0.5).prob
    x = np.ones((400, (N - 1) * M), np.float32)
    _, trained = prob.project(x, training=True)
    _, plain = prob.project(x)
    np.testing.assert_array_equal(plain, prob.v)
    ratio = (trained / prob.v).numpy().round(4)
    assert set(np.unique(ratio)) == {0.0, 2.0} and 0.45 < (ratio > 0).mean() < 0.55


def test_gradient_of_many_samples_is_that_of_the_likelihood():
    model = _model(num_sampled=20_000, proposal="log-uniform")
    counts = np.random.default_rng(0).integers(1, 9, V)
    counts[[0, 2, 3]] = 0
    bias = model.prob.b.numpy()
    model.set_unigram(counts)
    model.prob.b.assign(np.where(counts > 0, bias, -30))  # words that are never sampled have no mass
    _, sampled = _losses_and_gradients(model, lambda features: model.prob.training_loss(features, TARGETS)[0])
    chosen = lambda log_probs: tf.gather(log_probs, TARGETS, batch_dims=1)  # noqa: E731
    _, exact = _losses_and_gradients(model, lambda features: -chosen(model.prob.log_probs(features)))
    for name, wanted in exact.items():
        np.testing.assert_allclose(
            tf.convert_to_tensor(sampled[name]), tf.convert_to_tensor(wanted), atol=0.01, err_msg=name
        )


def test_lazy_step_sums_what_a_row_gets_as_context_and_target():
    model, samples = _model(), _samples()
    before, gradient = model.embed.C.numpy(), _importance_sampling(model, samples)[1]["C"] / len(TARGETS)
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
    chosen = log_probs[np.arange(len(TARGETS)), TARGETS]
    np.testing.assert_allclose(model.log_prob(CONTEXTS, TARGETS), chosen, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"direct_connections": True}, "`direct_connections` must be False with EnergyOutput"),
        ({"hidden": "relu"}, "`hidden` must be 'tanh' with EnergyOutput"),
        ({"hidden": keras.layers.Dense(3)}, "`hidden` must be 'tanh' with EnergyOutput"),
        ({"output": EnergyOutput(V, 5), "dropout": 0.1}, "`dropout` must be 0 if `output` is EnergyOutput"),
    ],
)
def test_options_that_it_cannot_have_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        NPLM(V, **({"output": "energy"} | options))


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A model of a text in which the previous word predicts the next one well."""
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


@pytest.mark.long
def test_command_trains_a_model_better_than_the_unigrams(trained):
    encoded = EncodedCorpus.load(trained / "corpus")
    counts = encoded.frequencies()
    test = extract_ngrams(encoded.ids("test"), 3, "stream")[:, -1]
    unigram = np.exp(-np.log(counts[test] / counts[4:].sum()).mean())  # 16
    metrics = json.loads((trained / "metrics.json").read_text())
    assert metrics["test"]["perplexity"] < 0.6 * unigram
    assert metrics["test"]["ln_z"]["mean_absolute"] < 1
    assert metrics["parameters"] == encoded.vocabulary_size * 5 + 8 * (3 * 4 + 2)
    assert "h = 8" in (trained / "report.html").read_text(encoding="utf-8")
