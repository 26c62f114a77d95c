"""What every output layer keeps: its formula, sums of 1, one probability by all methods, gradients, files, growth.

The layers are parts of small networks with random weights, so that a pointer and the matrix C are there.
"""

import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    NPLM,
    AdaptiveSoftmax,
    AveragedContext,
    EnergyOutput,
    FullSoftmax,
    NoiseContrastive,
    SampledSoftmax,
)
from keras_nplm.data.special_ids import BOS_ID, PAD_ID
from keras_nplm.models import network_probabilities
from keras_nplm.models.networks.growth import NewRows, grow

V, N, M, H, B = 30, 4, 3, 5, 12  # words, order, components, hidden units, n-grams
WHICH = np.array([2, 0, 2, 1, 1, 8, 7, 0, 5, 11, 11, 3], np.int32)  # the context of each target
DIRECT = dict(direct_connections=True)
HELD_OUT = dict(held_out_mass=0.2, self_normalisation=0.1)
SAMPLED = dict(num_sampled=8, seed=3)
AVERAGED = AveragedContext(V, M, averages_after=(1,))
SHORT = dict(shortlist_size=20, outside_output=True)
KINDS = {
    "full": (FullSoftmax, {}, {}),
    "full, held out": (FullSoftmax, HELD_OUT, DIRECT),
    "full in float64": (FullSoftmax, {}, {"dtype": "float64"}),
    "low rank": (FullSoftmax, dict(rank=2), DIRECT),
    "tied": (FullSoftmax, dict(tied=True), {}),
    "short-list": (FullSoftmax, dict(shortlist_size=20), DIRECT | {"hidden": None}),
    "outside output": (FullSoftmax, SHORT, {}),
    "sampled": (SampledSoftmax, SAMPLED, {}),
    "sampled, log-uniform": (SampledSoftmax, dict(proposal="log-uniform", self_normalisation=0.3) | SAMPLED, {}),
    "nce": (NoiseContrastive, dict(self_normalisation=0.1) | SAMPLED, {}),
    "nce, held out": (NoiseContrastive, dict(held_out_mass=0.2) | SAMPLED, {}),
    "adaptive": (AdaptiveSoftmax, dict(cutoffs=(2, 4, 16)), {}),  # <s> and </s> are a cluster
    "energy": (EnergyOutput, dict(hidden_units=H, self_normalisation=0.1) | SAMPLED, {}),
    "pointer": (FullSoftmax, {}, {"pointer": True}),
    "pointer, low rank": (FullSoftmax, dict(rank=2), DIRECT | {"pointer": True, "context": AVERAGED}),
    "pointer, tied": (FullSoftmax, dict(tied=True), {"pointer": True}),
    "pointer, short-list": (FullSoftmax, dict(shortlist_size=20), {"pointer": True}),
    "pointer, outside output": (FullSoftmax, SHORT, {"pointer": True}),
    "pointer, sampled": (SampledSoftmax, SAMPLED, {"pointer": True}),
    "pointer, nce": (NoiseContrastive, dict(self_normalisation=0.3) | SAMPLED, {"pointer": True}),
}
of_every_output = pytest.mark.parametrize("kind", KINDS)


def _network(kind: str) -> NPLM:
    layer, own, options = KINDS[kind]
    output = layer(V, name="prob", dtype=options.get("dtype"), **own)
    model, rng = NPLM(V, N, M, H, output=output, **options), np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


build = functools.cache(_network)


def _batch(model: NPLM) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    contexts = rng.integers(1, 9, (B, N - 1)).astype(np.int32)  # few words: some repeat within a context
    contexts[::4, 0], contexts[1::4, 1], contexts[5, 2] = PAD_ID, BOS_ID, V - 1
    targets = np.concatenate([[4, 9, 20, *contexts[3:6, 2]], rng.integers(1, V, B - 6)])
    return contexts, np.minimum(targets, model.prob.num_outputs - 1).astype(np.int32)


def _wide(weight) -> np.ndarray:
    return keras.ops.convert_to_numpy(weight).astype(np.float64)


def _softmax(y: np.ndarray) -> np.ndarray:
    exponentials = np.exp(y - y.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _oracle(model: NPLM, contexts: np.ndarray) -> np.ndarray:
    """P of every output by the formulas, float64 [B, outputs]."""
    prob, C = model.prob, _wide(model.embed.C)
    features = _wide(model.features_of(model.embed(contexts)))  # without copies
    C[PAD_ID] = 0
    if isinstance(prob, EnergyOutput):
        H, d, v, b = (_wide(weight) for weight in (prob.H, prob.d, prob.v, prob.b))
        z = d + (features @ H[: features.shape[1]])[:, None] + C @ H[features.shape[1] :]  # [B, |V|, h]
        return _softmax(np.tanh(z) @ v + b)
    if isinstance(prob, AdaptiveSoftmax):
        root, first = _softmax(features @ _wide(prob.root[0]).T + _wide(prob.root[1])), prob.cutoffs[0]
        parts = [root[:, :first]]
        for i, (P, (U, b)) in enumerate(zip(prob.projections, prob.clusters, strict=True)):
            parts.append(root[:, first + i, None] * _softmax(features @ _wide(P) @ _wide(U).T + _wide(b)))
        return np.concatenate(parts, axis=1)
    projected = features if prob.P is None else features @ _wide(prob.P)
    weights = np.exp(projected @ _wide(prob.kernel).T + _wide(prob.b))
    if model.pointer is not None:
        (Q, R, v, u, r), vectors = map(_wide, model.pointer.weights), C[contexts]
        scores = u + np.einsum("bim,bm->bi", vectors, v + features @ Q)
        scores[:, 1:] += np.einsum("bim,bm->bi", vectors[:, :-1], features @ R)
        scores[:, 1:] += r * (contexts[:, :-1] == contexts[:, -1:])  # of one word: three need a longer context
        outputs = np.minimum(contexts, prob.listed) if prob.outside_output else contexts
        for row, i in np.ndindex(contexts.shape):
            if contexts[row, i] not in (PAD_ID, BOS_ID) and outputs[row, i] < prob.num_outputs:
                weights[row, outputs[row, i]] += 1 / (1 + np.exp(-scores[row, i]))
    return weights / weights.sum(axis=1, keepdims=True)


@of_every_output
def test_probabilities_are_those_of_the_formula(kind):
    model = build(kind)
    contexts, _ = _batch(model)
    expected, features = _oracle(model, contexts), model.features(contexts)
    found = model.prob(features)
    assert found.shape == (B, model.prob.num_outputs) == model.prob.compute_output_shape((B, 1))
    np.testing.assert_allclose(np.sum(found, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-7)
    np.testing.assert_allclose(np.exp(model.prob.log_probs(features)), expected, rtol=2e-4, atol=1e-7)


@of_every_output
def test_log_prob_is_that_of_the_target_whatever_the_blocks(kind, monkeypatch):
    model = build(kind)
    contexts, targets = _batch(model)
    expected = np.log(_oracle(model, contexts))
    found = model.prob.log_prob(model.features(contexts), targets, WHICH)
    np.testing.assert_allclose(found, expected[WHICH, targets], atol=2e-4)
    if kind == "pointer, nce":  # as graphs of arrays, five contexts at a time
        monkeypatch.setattr(network_probabilities, "_CONTEXTS", 5)
        np.testing.assert_allclose(model.next_output_log_probs(contexts), expected, atol=2e-4)
        np.testing.assert_allclose(model.output_log_prob(contexts[WHICH], targets), expected[WHICH, targets], atol=2e-4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "adaptive"])  # which has no logits of its own
def test_logits_are_log_probabilities_up_to_a_constant(kind):
    model = build(kind)
    contexts, targets = _batch(model)
    prob, features = model.prob, model.features(contexts)
    log_probs, logits = np.asarray(prob.log_probs(features)), np.asarray(prob.logits(features))
    np.testing.assert_allclose(logits - logits[:, :1], log_probs - log_probs[:, :1], atol=1e-4)
    projected, words = prob.project(features), np.array([9, 4, 9, 20, 4], np.int32)
    np.testing.assert_allclose(prob.logits_of(projected, words), logits[:, words], atol=1e-4)
    np.testing.assert_allclose(prob.logit(projected, targets), logits[np.arange(B), targets], atol=1e-4)


@of_every_output
def test_ids_out_of_range_give_nan(kind):
    model = build(kind)
    contexts, targets = _batch(model)
    targets[3], targets[5] = model.prob.num_outputs, -1
    features = model.features(contexts)
    for values in (model.prob.training_loss(features, targets)[0], model.prob.log_prob(features, targets)):
        assert np.flatnonzero(np.isnan(values)).tolist() == [3, 5]


def _dense_losses(model: NPLM, contexts: np.ndarray, targets: np.ndarray, samples: np.ndarray) -> tf.Tensor:
    """The training loss of each n-gram, computed from the log-probabilities and logits of all outputs."""
    prob, features = model.prob, model.features(contexts)
    log_probs, mass, alpha = prob.log_probs(features), prob.held_out_mass, getattr(prob, "self_normalisation", 0)
    if not prob.is_sampled:
        loss = -(1 - mass) * tf.gather(log_probs, targets, batch_dims=1)
        loss -= mass * tf.linalg.matvec(log_probs, prob.q) if mass else 0
        return loss + (alpha * tf.reduce_logsumexp(prob.logits(features), axis=1) ** 2 if alpha else 0)
    s = prob.logits(features) - prob.log_q - np.log(len(samples)).astype("float32")
    target, noise = tf.gather(s, targets, batch_dims=1), tf.gather(s, samples, axis=1)
    log_z = tf.reduce_logsumexp(noise, axis=1)
    if isinstance(prob, NoiseContrastive):
        likelihood = tf.math.log_sigmoid(target) + tf.reduce_sum(tf.math.log_sigmoid(-noise), axis=1)
    else:
        likelihood = target - tf.math.log(tf.exp(target) + tf.exp(log_z))
    return alpha * log_z**2 - likelihood


def _exact(model: NPLM, contexts: np.ndarray, targets: np.ndarray, samples: np.ndarray) -> tf.Tensor:
    return -tf.gather(model.prob.log_probs(model.features(contexts)), targets, batch_dims=1)


def _gradients(model: NPLM, compute_losses) -> tuple:
    weights = [weight.value for weight in model.trainable_weights]
    paths = [weight.path for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        losses = compute_losses()
        total = tf.reduce_sum(losses * np.linspace(1, 2, B).astype(losses.dtype.name))
    return losses, dict(zip(paths, tape.gradient(total, weights), strict=True))


@of_every_output
def test_gradients_are_those_of_all_probabilities(kind, monkeypatch):
    model = build(kind)
    contexts, targets = _batch(model)
    samples = np.array([5, 6, 6, 6, 9, 10, 12, 4], np.int32)
    cases = {"-ln P": (lambda: prob.negative_log_likelihood(model.features(contexts), targets), _exact)}
    prob = model.prob
    if not (prob.is_sampled and prob.held_out_mass):  # which replaces targets at random
        monkeypatch.setattr(prob, "_sample", lambda *_: tf.constant(samples), raising=False)
        cases["loss"] = (lambda: prob.training_loss(model.features(contexts), targets)[0], _dense_losses)
    for name, (fast, dense) in cases.items():
        found, gradients = _gradients(model, fast)
        expected, wanted = _gradients(model, lambda: dense(model, contexts, targets, samples))  # noqa: B023
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5, err_msg=name)
        for path, gradient in gradients.items():
            dense_gradient = tf.convert_to_tensor(wanted[path])
            np.testing.assert_allclose(tf.convert_to_tensor(gradient), dense_gradient, atol=2e-4, err_msg=path)
        if name == "loss" and prob.is_sampled:  # a step touches the rows of the targets and of the samples only
            sparse = [path for path in gradients if path.endswith(("prob/UW", "prob/b", "embed/C"))]
            assert sparse and all(isinstance(gradients[path], tf.IndexedSlices) for path in sparse)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "pointer" not in kind])
def test_layer_starts_as_the_unigram_model(kind):
    model = _network(kind)
    for weight in model.trainable_weights:
        weight.assign(np.zeros(weight.shape))
    counts = np.random.default_rng(0).integers(1, 50, V)
    counts[:4] = 0, 7, 0, 0
    model.set_unigram(counts)
    if model.prob.outside_output:
        counts = np.append(counts[: model.prob.listed], counts[model.prob.listed :].sum())
    counts = counts[: model.prob.num_outputs]
    q = (np.arange(len(counts)) > 3) + (np.arange(len(counts)) == 1)
    expected = (1 - model.prob.held_out_mass) * counts / counts.sum() + model.prob.held_out_mass * q / q.sum()
    np.testing.assert_allclose(model.prob(model.features(_batch(model)[0]))[0], expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not re.search("adaptive|energy|list|outside", kind)])
def test_new_words_are_outputs_of_the_formula(kind):
    model, rng = build(kind), np.random.default_rng(3)
    C, kernel = rng.normal(size=(2, M)), rng.normal(size=(2, model.prob.kernel.shape[1]))
    rows = NewRows(C, C if model.prob.tied else kernel, rng.normal(size=2), np.array([0.05, 0.02]))
    grown, (contexts, _) = grow(model, rows), _batch(model)
    np.testing.assert_allclose(grown.prob(grown.features(contexts)), _oracle(grown, contexts), rtol=2e-4, atol=1e-7)
    np.testing.assert_allclose(grown.prob.kernel.numpy()[V:], rows.kernel, rtol=1e-6)
    for one, other in zip(model.trainable_weights, grown.trainable_weights, strict=True):
        np.testing.assert_array_equal(other.numpy()[: one.shape[0]], one.numpy())  # nothing else has changed
