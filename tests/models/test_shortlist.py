"""Short-lists against both formulas in plain NumPy, and saved."""

import functools

import keras
import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    Mixture,
    Shortlist,
    Uniform,
)
from keras_nplm.data.ngram_arrays import extract_ngrams
from keras_nplm.layers.outputs import FullSoftmax
from keras_nplm.models.base import NextWordModel
from keras_nplm.models.ngrams import BackoffModel, deleted_interpolation, kneser_ney
from keras_nplm.models.ngrams.tables import ContextTrie
from keras_nplm.models.shortlist import measure_coverage

V, LISTED = 13, 8  # ids 4 to 7 are the words of the list


def _text(seed: int, number: int = 400) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = 4 + rng.geometric(0.35, number) % 8  # id 12 is never seen
    ids[::9] = 3
    return np.append(ids, 3).astype(np.int32)


def _network(order: int, outside_output: bool, size: int = LISTED - 4, **options) -> NPLM:
    keras.utils.set_random_seed(1)
    output = FullSoftmax(V, shortlist_size=size, outside_output=outside_output)
    model = NPLM(V, order, embedding_dim=3, hidden_units=4, **dict(output=output, boundary="stream") | options)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))
    return model


@functools.cache
def _background(name: str, boundary: str):
    text = _text(1)
    if name == "mixture":
        return Mixture([kneser_ney(text, V, 4, boundary), Uniform(V, boundary)], [0.7, 0.3])
    if name == "deleted interpolation":
        return deleted_interpolation(text, _text(2), V, 3, boundary)
    return kneser_ney(text, V, int(name[-1]), boundary)


def _contexts(order: int, number: int = 120) -> np.ndarray:
    """Contexts seen and unseen, with the beginnings of texts and sentences among them."""
    contexts = np.random.default_rng(3).integers(1, V, (number, order - 1)).astype(np.int32)
    for row in range(0, number, 5):
        contexts[row, : 1 + row % (order - 1) if order > 2 else 1] = 0 if row % 2 else 2
    return np.concatenate([contexts, extract_ngrams(_text(1), order, "stream")[:60, :-1]])


def _network_in_numpy(model: NPLM, context_ids: np.ndarray) -> np.ndarray:
    """Return P_N of every output, float64 [B, outputs], from the weights."""
    C, H, d = (np.array(w, np.float64) for w in (model.embed.C, model.hidden.H, model.hidden.d))
    kernel, b = np.array(model.prob.kernel, np.float64), np.array(model.prob.b, np.float64)
    C[0] = 0
    y = np.tanh(C[context_ids].reshape(len(context_ids), -1) @ H + d) @ kernel.T + b
    return np.exp(y) / np.exp(y).sum(axis=1, keepdims=True)


def _shortlist_in_python(model: Shortlist, context_ids: np.ndarray) -> np.ndarray:
    """Return P of every word, word by word, by the formulas."""
    network, background = model.network, model.background
    p_n = _network_in_numpy(network, context_ids[:, context_ids.shape[1] - network.order + 1 :])
    p_b = np.exp(background.next_log_probs(context_ids[:, context_ids.shape[1] - background.order + 1 :]), dtype=float)
    p = np.zeros((len(context_ids), V))
    for row in range(len(context_ids)):
        share = sum(p_b[row, w] for w in range(LISTED))
        for w in range(V):
            if network.prob.outside_output:
                p[row, w] = p_n[row, w] if w < LISTED else p_n[row, LISTED] * p_b[row, w] / (1 - share)
            else:
                p[row, w] = p_n[row, w] * share if w < LISTED else p_b[row, w]
    return p


BACKGROUNDS = ("kneser-ney-2", "kneser-ney-4", "deleted interpolation", "mixture")


@pytest.mark.parametrize("outside_output", [False, True])
@pytest.mark.parametrize(
    "background, boundary", [*((name, "stream") for name in BACKGROUNDS), ("kneser-ney-4", "sentence")]
)
def test_probabilities_follow_the_formulas_and_sum_to_1(background, boundary, outside_output):
    model = Shortlist(_network(3, outside_output, boundary=boundary), _background(background, boundary))
    assert model.order == max(3, model.background.order)
    contexts = _contexts(model.order)
    expected = _shortlist_in_python(model, contexts)
    np.testing.assert_allclose(expected.sum(axis=1), 1, atol=1e-6)
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    all_targets = np.repeat(contexts, V, axis=0), np.tile(np.arange(V), len(contexts))
    one_by_one = np.exp(model.log_prob(*all_targets)).reshape(-1, V)
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(one_by_one.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("outside_output", [False, True])
def test_a_list_of_all_words_leaves_no_mass_outside(outside_output):
    model = Shortlist(_network(3, outside_output, size=V - 4), _background("kneser-ney-4", "stream"))
    contexts = _contexts(4)
    p = _network_in_numpy(model.network, contexts[:, 1:])[:, :V]
    found = np.exp(model.next_log_probs(contexts))
    np.testing.assert_allclose(found, p / p.sum(axis=1, keepdims=True), rtol=1e-5)
    targets = np.arange(len(contexts)) % V
    one_by_one = np.exp(model.log_prob(contexts, targets))
    np.testing.assert_allclose(one_by_one, found[np.arange(len(contexts)), targets], rtol=1e-5)


def test_list_has_all_mass_if_the_background_leaves_none():
    """In the context 5 alone of a bigram model: all of its mass is on id 4."""
    unigrams = np.log(np.array([0, 0.2, 0, 0, 0.3, 0.1, 0.3, 0.1]) + 1e-300).astype(np.float32)
    nothing = np.full(8, -np.inf, np.float32)
    model = BackoffModel(ContextTrie(8, []), unigrams, [np.array([5 * 8 + 4])], [np.zeros(1, np.float32)], [nothing])
    for outside_output in (False, True):
        output = FullSoftmax(8, shortlist_size=2, outside_output=outside_output)
        network = NPLM(8, 2, embedding_dim=2, hidden_units=2, output=output)
        shortlist = Shortlist(network, model)
        contexts = np.array([[5]])
        assert shortlist.outside_mass(contexts).tolist() == [0]
        p = np.exp(shortlist.next_log_probs(contexts))
        np.testing.assert_allclose(p.sum(), 1, atol=1e-6)
        one_by_one = np.exp(shortlist.log_prob(np.tile(contexts, (8, 1)), np.arange(8)))
        np.testing.assert_allclose(one_by_one, p[0], rtol=1e-5)


class _RoundedAboveOne(NextWordModel):
    """All mass is on words outside the list, and sums to a little more than 1."""

    order, vocabulary_size, boundary = 2, V, "stream"
    _p = np.where(np.arange(V) < LISTED, 0, (1 + 1e-6) / (V - LISTED))

    def _log_prob(self, context_ids, target_ids):
        with np.errstate(divide="ignore"):
            return np.log(self._p[target_ids])

    def _next_log_probs(self, context_ids):
        with np.errstate(divide="ignore"):
            return np.tile(np.log(self._p), (len(context_ids), 1))


@pytest.mark.parametrize("outside_output", [False, True])
def test_outside_mass_rounded_above_1_gives_probabilities(outside_output):
    model = Shortlist(_network(2, outside_output), _RoundedAboveOne())
    contexts = np.full((V, 1), 5)
    assert model.outside_mass(contexts[:1]).tolist() == [1]
    p = np.exp(model.next_log_probs(contexts))[0]
    np.testing.assert_allclose(np.exp(model.log_prob(contexts, np.arange(V))), p, rtol=1e-5)
    assert p.sum() == pytest.approx(1, abs=2e-6)
    assert outside_output or p[:LISTED].tolist() == [0] * LISTED


def test_network_computes_each_context_of_listed_words_once(monkeypatch):
    computed = []
    network = _network(3, False)
    whole = network._graph_log_prob
    network._graph_log_prob = lambda contexts, *rest: computed.append(contexts) or whole(contexts, *rest)
    model = Shortlist(network, _background("kneser-ney-4", "stream"))
    contexts = np.array([[4, 4, 5], [9, 4, 5], [4, 6, 6], [4, 7, 7]], np.int32)
    model.log_prob(contexts, np.array([5, 6, 9, 12]))
    assert [part.tolist() for part in computed] == [[[4, 5]]]


def test_coverage_counts_the_end_of_sentence_if_predicted():
    ids = np.array([4, 9, 1, 5, 3], np.int32)
    assert measure_coverage(ids, LISTED, "stream") == 3 / 4
    assert measure_coverage(ids, LISTED) == 4 / 5
