"""Networks with new words against the softmax in NumPy."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_nplm import (
    NPLM,
    AveragedContext,
    DeepHidden,
    FullSoftmax,
    NoiseContrastive,
)
from keras_nplm.models.growth import NewRows, grow, renormalise

V, J, N = 14, 3, 4
KINDS = {
    "full": {},
    "no hidden layer": {"direct_connections": True, "hidden_units": 0},
    "pointer": {"pointer": True, "direct_connections": True},
    "tied": {"output": lambda: FullSoftmax(V, tied=True)},
    "sampled": {"output": "sampled", "dropout": 0.3},
    "nce": {"output": lambda: NoiseContrastive(V, num_sampled=8, held_out_mass=0.2, seed=1, name="prob")},
    "held out": {"output": lambda: FullSoftmax(V, held_out_mass=0.2, self_normalisation=0.1, name="prob")},
    "given layers": {
        "context": lambda: AveragedContext(V, 3, averages_after=(1,)),
        "hidden": lambda: DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True),
    },
}


def _model(kind: str = "full", counts=None) -> NPLM:
    keras.utils.set_random_seed(1)
    options = {"embedding_dim": 3, "hidden_units": 5} | KINDS[kind]
    options |= {name: make() for name, make in options.items() if callable(make)}
    model = NPLM(V, order=N, **options)
    random = np.random.default_rng(0)
    model.prob.set_unigram(np.arange(V) if counts is None else counts, 4)
    for weight in model.trainable_weights:
        weight.assign(random.normal(0, 0.7, weight.shape))
    return model


def _rows(model: NPLM, seed: int = 3) -> NewRows:
    random = np.random.default_rng(seed)
    C, kernel = random.normal(size=(J, 3)), random.normal(size=(J, model.prob.kernel.shape[1]))
    kernel = C if model.prob.tied else kernel
    return NewRows(C, kernel, random.normal(size=J), np.array([0.05, 0.02, 0.01]))


def _contexts(size: int, number: int = 60) -> np.ndarray:
    return np.random.default_rng(5).integers(0, size, (number, N - 1)).astype(np.int32)


@pytest.mark.parametrize("kind", ["full", "no hidden layer", "pointer", "tied", "given layers"])
def test_old_words_keep_ratios_and_new_words_have_their_logits(kind):
    model = _model(kind)
    rows, before = _rows(model), [weight.numpy().copy() for weight in model.weights]
    grown, contexts = grow(model, rows), _contexts(V)
    old, new = model.next_log_probs(contexts), grown.next_log_probs(contexts)
    np.testing.assert_allclose(np.exp(new).sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(new[:, :V] - new[:, 4:5], old - old[:, 4:5], atol=1e-4)
    np.testing.assert_allclose(grown.embed(contexts), model.embed(contexts), atol=1e-6)
    projected = model.prob.project_features(model.compute_features(contexts))
    y = np.asarray(projected) @ rows.kernel.T + rows.b  # of the new words
    old_y = np.asarray(model.prob.logits(model.features(contexts)))
    np.testing.assert_allclose(new[:, V:] - new[:, 4:5], y - old_y[:, 4:5], atol=1e-4)
    for weight, value in zip(model.weights, before, strict=True):  # the network before is not changed
        np.testing.assert_array_equal(weight.numpy(), value)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 30, 3000]), st.integers(1, 4))
def test_renormalised_is_the_softmax_of_all_logits(seed, scale, new):
    logits = np.random.default_rng(seed).normal(0, scale, (5, 6 + new))
    log_z = np.logaddexp.reduce(logits[:, :6], axis=1)
    before = logits[:, :6] - log_z[:, None]
    expected = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    old, added = renormalise(before, log_z, logits[:, 6:])
    np.testing.assert_allclose(np.concatenate([old, added], axis=1), expected, atol=1e-9)
    np.testing.assert_allclose(renormalise(before[:, 2], log_z, logits[:, 6:])[0], expected[:, 2], atol=1e-9)


def test_distributions_that_training_samples_from_grow():
    counts = np.array([0, 5, 0, 3, 9, 7, 5, 4, 4, 2, 1, 1, 0, 0])
    rows = _rows(_model())
    held_out = np.array([0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 3, 3, 4, 4, 4, 4, 4])  # min_count 4 less the count
    held_out = held_out / held_out.sum()
    np.testing.assert_allclose(grow(_model("held out", counts), rows).prob.q.numpy(), held_out, atol=1e-6)
    model = _model("nce", counts)
    grown = grow(model, rows).prob
    before, after = np.exp(model.prob.log_q.numpy()), np.exp(grown.log_q.numpy())
    np.testing.assert_allclose(after[V:], rows.frequencies, rtol=1e-4)
    np.testing.assert_allclose(after[4:V], before[4:] * 0.92, rtol=1e-3)
    uniform = (np.arange(100_000, dtype=np.float32) + 0.5) / 100_000
    for distribution, expected in ((grown.noise, after), (grown.held_out, held_out)):
        sampled = np.bincount(np.asarray(grown._sample(distribution, uniform)), minlength=V + J) / 100_000
        np.testing.assert_allclose(sampled, expected, atol=1e-4)


def test_a_network_with_new_words_trains():
    model = _model("nce")
    grown = grow(model, _rows(model))
    contexts, targets = _contexts(V + J, 64), np.arange(64) % (V + J - 4) + 4
    before, was = grown.log_prob(contexts, targets).mean(), grown.embed.C.numpy()[V:].copy()
    grown.compile(keras.optimizers.SGD(0.5), run_eagerly=True)
    for _ in range(5):
        grown.train_on_batch(contexts, targets)
    assert grown.log_prob(contexts, targets).mean() > before
    assert (np.abs(grown.embed.C.numpy()[V:] - was) > 0).all()


def test_random_states_are_copied():
    model = _model("sampled")
    model.compile(optimizer=keras.optimizers.SGD(0.1), run_eagerly=True)
    model.train_on_batch(_contexts(V), np.full(60, 5))
    states = [state.numpy().tolist() for state in model.random_states()]
    grown = grow(model, _rows(model))
    assert [state.numpy().tolist() for state in grown.random_states()] == states and states
