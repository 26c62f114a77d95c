"""Hybrids: the formula and its gradient, training by `fit`, adaptation, and the model directory."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, Hybrid, InputError, Jackknife, LanguageModel, hybrid_dataset, kneser_ney
from keras_nplm.cli.main import main
from keras_nplm.layers.outputs.hybrid import HybridSoftmax
from keras_nplm.layers.pointer import Features
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.evaluation import evaluate

V = 9
RNG = np.random.default_rng(0)


def _text(sentences: int, seed: int = 0) -> np.ndarray:
    """Sentences in which each word says which words may follow."""
    rng, ids = np.random.default_rng(seed), []
    for _ in range(sentences):
        word = rng.integers(4, V)
        for _ in range(rng.integers(2, 7)):
            ids.append(word)
            word = 4 + (word - 4 + rng.integers(1, 3)) % (V - 4)
        ids.append(3)
    return np.array(ids, np.int32)


def _network(dtype="float32", output="hybrid", **options) -> NPLM:
    network = NPLM(V, order=3, embedding_dim=3, hidden_units=4, output=output, dtype=dtype, **options)
    for weight in network.trainable_weights:
        weight.assign(np.random.default_rng(1).normal(0, 0.5, weight.shape))
    return network


@pytest.mark.parametrize("options", [{}, {"direct_connections": True}])
def test_loss_and_gradient_are_those_of_the_formula(options):
    network, contexts, targets = _network("float64", **options), RNG.integers(4, V, (6, 2)), RNG.integers(3, V, 6)
    log_q = np.log(RNG.dirichlet(np.ones(V), 6))
    x = network.embed.C.numpy()[contexts].reshape(6, -1)
    hidden = np.tanh(x @ network.hidden.H.numpy() + network.hidden.d.numpy())
    features = np.concatenate([hidden, x], axis=1) if options else hidden
    weights = [getattr(network.prob, name) for name in ("kernel", "b", "g", "v")]
    kernel, b, g, v = (weight.numpy() for weight in weights)
    y = features @ kernel.T + b + (g + features @ v)[:, None] * log_q
    p = np.exp(y - y.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    inputs = tf.constant(contexts, tf.int32), tf.constant(log_q)
    np.testing.assert_allclose(network(inputs), p, rtol=1e-9)
    with tf.GradientTape() as tape:
        loss = keras.ops.mean(network.prob.training_loss(network.features(inputs), targets)[0])
    np.testing.assert_allclose(loss, -np.log(p[np.arange(6), targets]).mean(), rtol=1e-9)
    d_y = (p - np.eye(V)[targets]) / 6
    d_gain = (d_y * log_q).sum(axis=1)
    expected = [d_y.T @ features, d_y.sum(axis=0), [d_gain.sum()], d_gain @ features]
    gradients = tape.gradient(loss, weights)
    for actual, wanted in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-7, atol=1e-12)


COUNTS = np.array([0, 1, 0, 50, 900, 30, 10, 5, 3])  # of a text in which one word is frequent


def test_training_starts_from_the_ngram_model():
    """Q has the frequencies of the words: the biases have not, so that they do not count twice."""
    output = HybridSoftmax(V)
    output.build((6, 3))
    output.set_unigram(COUNTS)
    q = RNG.dirichlet(np.ones(V), 6)
    features = Features(np.zeros((6, 3), np.float32), log_probs=np.log(q).astype(np.float32))
    np.testing.assert_allclose(output(features), q, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"rank": 2}, {"tied": True}], ids=str)
def test_a_hybrid_without_its_network_is_the_ngram_model(options):
    network = _network(output=HybridSoftmax(V, **options))
    background = kneser_ney(_text(30), V, 2)
    contexts = RNG.integers(4, V, (6, 2))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts[:, 1:])
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.prob.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)


def test_shuffled_batches_resume_with_the_same_log_probs():
    ids = _text(40)
    options = dict(order=3, batch_size=8, drop_remainder=True, seed=5)
    jackknife = Jackknife(ids, V, 4)  # of a higher order than the network
    whole = list(hybrid_dataset(ids, jackknife, first_epoch=1, **options).take(9).as_numpy_iterator())
    resumed = hybrid_dataset(ids, jackknife, first_epoch=1, first_batch=4, **options).take(5).as_numpy_iterator()
    for (inputs, targets), (wanted_inputs, wanted) in zip(resumed, whole[4:], strict=True):
        np.testing.assert_array_equal(targets, wanted)
        assert inputs[0].shape == (8, 2) and all(map(np.array_equal, inputs, wanted_inputs))


def test_it_learns_what_the_ngram_model_does_not_know():
    ids, test, keras_seed = _text(300), _text(60, seed=9), 3
    keras.utils.set_random_seed(keras_seed)
    background = kneser_ney(ids, V, 2)
    network = NPLM(V, order=4, embedding_dim=4, hidden_units=16, output="hybrid")
    network.prob.set_unigram(np.bincount(ids, minlength=V))
    network.compile(keras.optimizers.Adam(0.01))
    start = evaluate(Hybrid(network, background), test)["perplexity"]
    assert start == pytest.approx(evaluate(background, test)["perplexity"], rel=0.1)
    jackknife = Jackknife(ids, V, 2)
    validation = hybrid_dataset(test, background, 4, 64, shuffle=False)
    history = network.fit(
        hybrid_dataset(ids, jackknife, 4, 16), validation_data=validation, epochs=3, shuffle=False, verbose=0
    ).history
    figures = evaluate(Hybrid(network, background), test)
    assert figures["perplexity"] == pytest.approx(history["val_perplexity"][-1], rel=1e-4)
    assert figures["perplexity"] < 0.98 * evaluate(background, test)["perplexity"]
    adapted, adaptation = adapt_network(Hybrid(network, background), test[:150], test[150:], epochs=2)
    assert isinstance(adapted, Hybrid) and adapted.background is background
    assert adaptation.after <= adaptation.before


@pytest.mark.long
def test_a_directory_is_trained_on_characters(tmp_path, capsys):
    text, rng = tmp_path / "names.txt", np.random.default_rng(0)
    names = [f"{first}{'vwxyz'[k - 1] * k}{last}" for k in range(1, 6) for first, last in ("ab", "cd")]
    text.write_text("\n".join(rng.permutation(names * 20)), encoding="utf-8")
    options = "--token character --output-layer hybrid --averages-after 2 --hidden-units 8 --epochs 2 --json"
    assert main(["train", "--train", str(text), *options.split(), "--output", str(tmp_path / "model")]) == 0
    metrics, language_model = json.loads(capsys.readouterr().out), LanguageModel.load(tmp_path / "model")
    assert isinstance(language_model.model, Hybrid) and language_model.network is language_model.model.network
    assert language_model.model.background.order == 7  # longer contexts gain nothing
    figures = evaluate(language_model.model, language_model.corpus.ids("test"))
    assert figures["perplexity"] == pytest.approx(metrics["test"]["perplexity"], rel=1e-6)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: Hybrid(NPLM(V), kneser_ney(_text(5), V, 2)), "hybrid output"),
        (lambda: Hybrid(_network(), kneser_ney(_text(5), V + 1, 2)), "one vocabulary"),
    ],
)
def test_misuse_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
