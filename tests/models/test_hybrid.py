"""Hybrids: the formula and its gradient, training by `fit`, adaptation, and the model directory."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import (
    ContextEmbedding,
    DirectConnection,
    Hybrid,
    HybridNetwork,
    InputError,
    Jackknife,
    Likelihood,
    LinearHead,
    TanhHidden,
    hybrid_dataset,
    kneser_ney,
)
from keras_nplm.layers.hidden import NoHidden
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.evaluation import evaluate

V = 9
RNG = np.random.default_rng(0)


def _text(sentences: int, seed: int = 0) -> np.ndarray:
    """Sentences in which each word says which words may follow."""
    rng = np.random.default_rng(seed)
    ids = []
    for _ in range(sentences):
        word = rng.integers(4, V)
        for _ in range(rng.integers(2, 7)):
            ids.append(word)
            word = 4 + (word - 4 + rng.integers(1, 3)) % (V - 4)
        ids.append(3)
    return np.array(ids, np.int32)


def _build_network(order=3, m=3, h=4, dtype="float32", has_direct=False) -> HybridNetwork:
    return HybridNetwork(
        order=order,
        embed=ContextEmbedding(V, m, name="embed", dtype=dtype),
        hidden=TanhHidden(h, name="hidden", dtype=dtype),
        direct=DirectConnection(V, name="direct", dtype=dtype) if has_direct else None,
        head=LinearHead(V, name="prob", dtype=dtype),
        objective=Likelihood(dtype=dtype),
    )


def _randomise(network):
    for weight in network.trainable_weights:
        weight.assign(np.random.default_rng(1).normal(0, 0.5, weight.shape))
    return network


@pytest.mark.parametrize("has_direct", [False, True])
def test_loss_and_gradient_are_those_of_the_formula(has_direct):
    network = _randomise(_build_network(dtype="float64", has_direct=has_direct))
    contexts = RNG.integers(4, V, (6, 2))
    targets = RNG.integers(3, V, 6)
    log_q = np.log(RNG.dirichlet(np.ones(V), 6))
    x = network.embed.C.numpy()[contexts].reshape(6, -1)
    a = np.tanh(x @ network.hidden.H.numpy() + network.hidden.d.numpy())
    U = network.prob.U
    b = network.prob.b
    g = network.g
    v = network.v
    gain = g.numpy() + a @ v.numpy()
    y = a @ U.numpy().T + b.numpy() + gain[:, None] * log_q
    if has_direct:
        y += x @ network.direct.W.numpy().T
    p = np.exp(y - y.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    inputs = {"contexts": tf.constant(contexts, tf.int32), "log_q": tf.constant(log_q)}
    np.testing.assert_allclose(network(inputs), p, rtol=1e-9)
    with tf.GradientTape() as tape:
        losses = network.objective.losses(network.scores(inputs, training=True), targets)
        loss = keras.ops.mean(losses.loss)
    np.testing.assert_allclose(loss, -np.log(p[np.arange(6), targets]).mean(), rtol=1e-9)
    d_y = (p - np.eye(V)[targets]) / 6
    d_gain = (d_y * log_q).sum(axis=1)
    expected = [(U, d_y.T @ a), (b, d_y.sum(axis=0)), (g, [d_gain.sum()]), (v, d_gain @ a)]
    if has_direct:
        expected.append((network.direct.W, d_y.T @ x))
    gradients = tape.gradient(loss, [weight for weight, _ in expected])
    for gradient, (weight, wanted) in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-12, err_msg=weight.name)


def test_training_starts_at_the_ngram_model():
    """g is 1, b and v are 0, also after the unigram start, which Q makes superfluous."""
    network = _build_network()
    network.set_unigram(np.arange(V))
    network.prob.U.assign(np.zeros(network.prob.U.shape))
    q = RNG.dirichlet(np.ones(V), 6).astype(np.float32)
    inputs = {"contexts": RNG.integers(4, V, (6, 2)), "log_q": np.log(q)}
    np.testing.assert_allclose(network(inputs), q, rtol=1e-5)


def test_a_network_without_its_ngram_model_is_refused():
    network = _build_network()
    contexts = RNG.integers(4, V, (6, 2))
    with pytest.raises(InputError, match='must be {"contexts": …, "log_q": …}'):
        network(contexts)
    with pytest.raises(InputError, match=r"Received: \['contexts'\]"):
        network({"contexts": contexts})
    with pytest.raises(InputError, match="ask a `Hybrid` of this network"):
        network.log_prob(contexts, contexts[:, 0])


def _compose(hidden, direct=None, **options) -> HybridNetwork:
    embed = ContextEmbedding(V, 3, name="embed")
    head = LinearHead(V, name="prob", **options)
    return HybridNetwork(3, embed, head, Likelihood(), hidden, direct)


@pytest.mark.parametrize(
    "build",
    [
        lambda: _compose(TanhHidden(4, name="hidden")),
        lambda: _compose(TanhHidden(4, name="hidden"), rank=2),
        lambda: _compose(TanhHidden(4, name="hidden"), tied=True),
        lambda: _compose(NoHidden(name="hidden"), DirectConnection(V, name="direct")),
    ],
    ids=["U", "low rank", "tied", "direct connections alone"],
)
def test_a_hybrid_without_its_network_is_the_ngram_model(build):
    network = _randomise(build())
    background = kneser_ney(_text(30), V, 2)
    contexts = RNG.integers(4, V, (6, 2))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts[:, 1:])
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)


def test_shuffled_batches_resume_with_the_same_log_probs():
    ids = _text(40)
    options = dict(order=3, batch_size=8, drop_remainder=True, seed=5)
    jackknife = Jackknife(ids, V, 4)  # of a higher order than the network
    whole = list(
        hybrid_dataset(ids, jackknife, first_epoch=1, **options).take(9).as_numpy_iterator()
    )
    resumed = (
        hybrid_dataset(ids, jackknife, first_epoch=1, first_batch=4, **options)
        .take(5)
        .as_numpy_iterator()
    )
    for (inputs, targets), (wanted_inputs, wanted) in zip(resumed, whole[4:], strict=True):
        np.testing.assert_array_equal(targets, wanted)
        assert inputs["contexts"].shape == (8, 2)
        np.testing.assert_array_equal(inputs["contexts"], wanted_inputs["contexts"])
        np.testing.assert_array_equal(inputs["log_q"], wanted_inputs["log_q"])


@pytest.mark.long
def test_it_learns_what_the_ngram_model_does_not_know():
    ids = _text(300)
    test = _text(60, seed=9)
    keras.utils.set_random_seed(3)
    background = kneser_ney(ids, V, 2)
    network = _build_network(order=4, m=4, h=16)
    network.set_unigram(np.bincount(ids, minlength=V))
    network.compile(keras.optimizers.Adam(0.01))
    start = evaluate(Hybrid(network, background), test)["perplexity"]
    assert start == pytest.approx(evaluate(background, test)["perplexity"], rel=0.1)
    jackknife = Jackknife(ids, V, 2)
    validation = hybrid_dataset(test, background, 4, 64, shuffle=False)
    history = network.fit(
        hybrid_dataset(ids, jackknife, 4, 16),
        validation_data=validation,
        epochs=3,
        shuffle=False,
        verbose=0,
    ).history
    figures = evaluate(Hybrid(network, background), test)
    assert figures["perplexity"] == pytest.approx(history["val_perplexity"][-1], rel=1e-4)
    assert figures["perplexity"] < 0.98 * evaluate(background, test)["perplexity"]
    adapted, adaptation = adapt_network(
        Hybrid(network, background), test[:150], test[150:], epochs=2
    )
    assert isinstance(adapted, Hybrid) and adapted.background is background
    assert adaptation.after <= adaptation.before
