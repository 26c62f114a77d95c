"""The network of a short-list: a distribution over its outputs, training on all targets, first weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, InputError
from keras_nplm.layers.outputs import OUTPUTS, FullSoftmax

V, LISTED = 13, 8  # ids 4 to 7 are the words of the list


def _network(order: int, outside_output: bool, size: int = LISTED - 4, **options) -> NPLM:
    keras.utils.set_random_seed(1)
    output = FullSoftmax(V, shortlist_size=size, outside_output=outside_output)
    model = NPLM(V, order, embedding_dim=3, hidden_units=4, **dict(output=output, boundary="stream") | options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


def _contexts(number: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, V, (number, 2)).astype(np.int32)


def _network_in_numpy(model: NPLM, context_ids: np.ndarray) -> np.ndarray:
    """Return P_N of every output, float64 [B, outputs], from the weights."""
    C, H, d = (np.array(w, np.float64) for w in (model.embed.C, model.hidden.H, model.hidden.d))
    kernel, b = np.array(model.prob.kernel, np.float64), np.array(model.prob.b, np.float64)
    C[0] = 0
    y = np.tanh(C[context_ids].reshape(len(context_ids), -1) @ H + d) @ kernel.T + b
    return np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)


def test_network_is_a_distribution_over_its_list():
    contexts = _contexts(100)
    for outside_output in (False, True):
        model = _network(3, outside_output)
        assert model.embed.C.shape == (V, 3) and model.prob.kernel.shape == (LISTED + outside_output, 4)
        expected = _network_in_numpy(model, contexts)
        found = np.exp(model.next_log_probs(contexts))
        np.testing.assert_allclose(found[:, :LISTED], expected[:, :LISTED], rtol=1e-5)
        assert not found[:, LISTED:].any()
        targets = np.arange(len(contexts)) % V
        np.testing.assert_allclose(
            np.exp(model.log_prob(contexts, targets)), found[np.arange(len(contexts)), targets], rtol=1e-5
        )


@pytest.mark.parametrize(
    "output", ["full", *(pytest.param(name, marks=pytest.mark.long) for name in ("nce", "sampled"))]
)
def test_words_outside_train_the_outside_output(output):
    """A step on targets of any word is one on the targets mapped to the outputs, for a network of these alone."""
    contexts, targets = _contexts(64), np.random.default_rng(4).integers(4, V, 64)
    assert (targets >= LISTED).any()
    weights = []
    for mapped in (targets, np.minimum(targets, LISTED)):
        options = dict(shortlist_size=LISTED - 4, outside_output=True)
        options |= {} if output == "full" else {"num_sampled": 5, "seed": 3}
        model = _network(3, True, output=OUTPUTS[output](V, **options))
        model.set_unigram(np.bincount(targets, minlength=V))
        model.compile(optimizer=keras.optimizers.SGD(0.5))
        logs = model.fit(contexts, mapped, batch_size=64, verbose=0, shuffle=False).history
        weights.append(model.get_weights())
        assert all(np.isfinite(value).all() for value in logs.values())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_update_follows_the_gradient_of_the_formula():
    """Against finite differences of -ln P_N(output) in NumPy, of a bias in the list and of that of the outside."""
    contexts, targets = _contexts(32), np.random.default_rng(5).integers(4, V, 32)
    model = _network(3, True)
    model.compile(optimizer=keras.optimizers.SGD(1.0))
    before = np.array(model.prob.b)

    def loss():
        p = _network_in_numpy(model, contexts)
        return -np.log(p[np.arange(32), np.minimum(targets, LISTED)]).mean()

    expected = []
    for output in range(LISTED + 1):
        values = []
        for step in (1e-3, -1e-3):
            model.prob.b.assign(before + step * (np.arange(LISTED + 1) == output))
            values.append(loss())
        expected.append((values[0] - values[1]) / 2e-3)
    model.prob.b.assign(before)
    model.fit(contexts, targets, batch_size=32, verbose=0)
    np.testing.assert_allclose(before - np.array(model.prob.b), expected, atol=1e-5)


def test_target_without_an_output_stops_training():
    model = _network(3, False)
    model.compile(optimizer="sgd")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"`target_ids` must be 0 to 7.*targets_below="):
        model.fit(np.array([[4, 5]]), np.array([LISTED]), verbose=0)


def test_first_biases_are_those_of_the_unigram_model():
    counts = np.array([0, 5, 0, 0, 40, 30, 20, 10, 8, 6, 4, 2, 0])
    for outside_output in (False, True):
        model = _network(3, outside_output)
        model.set_unigram(counts)
        model.prob.kernel.assign(np.zeros(model.prob.kernel.shape))
        expected = np.append(counts[:LISTED], counts[LISTED:].sum() if outside_output else [])
        p = np.exp(model.next_output_log_probs(np.array([[4, 5]])))[0]
        np.testing.assert_allclose(p, expected / expected.sum(), atol=1e-6)
    with pytest.raises(InputError, match="`counts` must be"):
        model.set_unigram(counts[1:])
