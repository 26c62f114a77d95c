"""Hybrids: their start, training by `fit`, adaptation, and the log-probabilities of batches.

Their formula and its gradient are held by networks/test_every_network.py.
"""

import keras
import numpy as np
import pytest

from keras_nplm import (
    Hybrid,
    HybridNetwork,
    Jackknife,
    LinearHead,
    hybrid_dataset,
    kneser_ney,
)
from keras_nplm.layers.hidden import NoHidden
from keras_nplm.models.adaptation import adapt_network
from keras_nplm.models.evaluation import evaluate
from tests.networks import compose

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


def _compose(**options) -> HybridNetwork:
    return compose(V, kind=HybridNetwork, **options)


def test_training_starts_at_the_ngram_model():
    """g is 1, b and v are 0, also after the unigram start, which Q makes superfluous."""
    network = _compose()
    network.set_unigram(np.arange(V))
    network.prob.U.assign(np.zeros(network.prob.U.shape))
    q = RNG.dirichlet(np.ones(V), 6).astype(np.float32)
    inputs = {"contexts": RNG.integers(4, V, (6, 2)), "log_q": np.log(q)}
    np.testing.assert_allclose(network(inputs), q, rtol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        _compose,
        lambda: _compose(head=LinearHead(V, rank=2, name="prob")),
        lambda: _compose(head=LinearHead(V, tied=True, name="prob")),
        lambda: _compose(hidden=NoHidden(name="hidden"), direct_connections=True),
    ],
    ids=["U", "low rank", "tied", "direct connections alone"],
)
def test_a_hybrid_without_its_network_is_the_ngram_model(build):
    network = build()
    for weight in network.trainable_weights:
        weight.assign(np.random.default_rng(1).normal(0, 0.5, weight.shape))
    background = kneser_ney(_text(30), V, 2)
    contexts = RNG.integers(4, V, (6, 2))
    hybrid = Hybrid(network, background)
    expected = background.next_log_probs(contexts[:, 1:])
    assert np.abs(hybrid.next_log_probs(contexts) - expected)[:, 4:].max() > 0.1
    network.forget_network()
    np.testing.assert_allclose(hybrid.next_log_probs(contexts)[:, 3:], expected[:, 3:], atol=1e-5)


def test_shuffled_batches_resume_with_the_same_log_probs():
    ids = _text(40)
    jackknife = Jackknife(ids, V, 4)  # of a higher order than the network

    def read(first_batch, number):
        options = dict(drop_remainder=True, seed=5, first_epoch=1, first_batch=first_batch)
        data = hybrid_dataset(ids, jackknife, 3, 8, **options)
        return list(data.take(number).as_numpy_iterator())

    for (inputs, targets), (wanted_inputs, wanted) in zip(read(4, 5), read(0, 9)[4:], strict=True):
        np.testing.assert_array_equal(targets, wanted)
        assert inputs["contexts"].shape == (8, 2)
        for name in ("contexts", "log_q"):
            np.testing.assert_array_equal(inputs[name], wanted_inputs[name])


@pytest.mark.long
def test_it_learns_what_the_ngram_model_does_not_know():
    ids = _text(300)
    test = _text(60, seed=9)
    keras.utils.set_random_seed(3)
    background = kneser_ney(ids, V, 2)
    network = _compose(order=4, hidden_units=16)
    network.set_unigram(np.bincount(ids, minlength=V))
    network.compile(keras.optimizers.Adam(0.01))
    start = evaluate(Hybrid(network, background), test)["perplexity"]
    of_background = evaluate(background, test)["perplexity"]
    assert start == pytest.approx(of_background, rel=0.1)
    training = hybrid_dataset(ids, Jackknife(ids, V, 2), 4, 16)
    validation = hybrid_dataset(test, background, 4, 64, shuffle=False)
    options = dict(validation_data=validation, epochs=3, shuffle=False, verbose=0)
    history = network.fit(training, **options).history
    figures = evaluate(Hybrid(network, background), test)
    assert figures["perplexity"] == pytest.approx(history["val_perplexity"][-1], rel=1e-4)
    assert figures["perplexity"] < 0.98 * of_background
    adapted, adaptation = adapt_network(
        Hybrid(network, background), test[:150], test[150:], epochs=2
    )
    assert isinstance(adapted, Hybrid) and adapted.background is background
    assert adaptation.after <= adaptation.before
