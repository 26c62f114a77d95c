"""Scores answer every question as the logits of all words do."""

import importlib
import inspect
import pkgutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_nplm.layers
from keras_nplm import AdaptiveHead, DirectConnection, EnergyHead, LinearHead
from keras_nplm.layers.pointer import CopyScores
from keras_nplm.layers.scores import LinearScores, Scores, StoredScores, compute_log_prob
from tests.networks import randomise

V = 30  # words
W = 6  # features
B = 9  # contexts
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(B, W)).astype(np.float32)
X = RNG.normal(size=(B, 4)).astype(np.float32)


def make_linear(width: int = W) -> LinearScores:
    head = LinearHead(V)
    head.build((None, width))
    randomise(head)
    return head.scores(tf.constant(FEATURES[:, :width]))


def make_direct(width: int = W) -> LinearScores:
    """Return y = b + U a + W x, with `width` hidden units."""
    direct = DirectConnection(V)
    direct.build((None, X.shape[1]))
    return make_linear(width).plus(tf.constant(X), direct.W)


def make_stored() -> StoredScores:
    return StoredScores(tf.constant(RNG.normal(size=(B, V)).astype(np.float32)))


def make_copies() -> CopyScores:
    """Return scores of three segments of three targets each, with copies of some words."""
    weights = RNG.random((3, 5, 3)).astype(np.float32)
    ids = RNG.integers(4, 9, (3, 5)).astype(np.int32)
    return CopyScores(make_linear(), tf.constant(weights), tf.constant(ids))


def make_adaptive() -> Scores:
    head = AdaptiveHead(V, cutoffs=(2, 4, 16))
    head.build((None, W))
    randomise(head)
    return head.scores(tf.constant(FEATURES))


def make_energy() -> Scores:
    head = EnergyHead(V, hidden_units=5)
    head.tie(keras.Variable(RNG.normal(size=(V, 3)), autocast=False))
    head.build((None, W))
    randomise(head)
    return head.scores(tf.constant(FEATURES))


SCORES = {
    "linear": make_linear,
    "direct": make_direct,
    "direct alone": lambda: make_direct(0),
    "biases alone": lambda: make_linear(0),
    "stored": make_stored,
    "copies": make_copies,
    "adaptive": make_adaptive,
    "energy": make_energy,
}
CHOSEN = np.array([4, 9, 20, 4, 29, 5, 6, 7, 8], np.int32)  # a word of each context
ROWS = np.arange(B)


def log_sum_exp(y: np.ndarray) -> np.ndarray:
    return np.logaddexp.reduce(y.astype(np.float64), axis=1)


def test_every_class_of_scores_is_tried():
    modules = pkgutil.walk_packages(keras_nplm.layers.__path__, "keras_nplm.layers.")
    names = [importlib.import_module(module.name) for module in modules]
    classes = {
        value
        for module in names
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Scores) and value is not Scores
    }
    assert classes == {type(make()) for make in SCORES.values()}


@pytest.mark.parametrize("name", SCORES)
def test_every_question_has_the_answer_of_all_logits(name):
    scores = SCORES[name]()
    y = scores.logits().numpy()
    assert y.shape == (B, V)
    log_z = log_sum_exp(y)
    words = np.array([9, 4, 9, 20, 4], np.int32)
    offset = np.array([0.5, -1, 2, 0, 3], np.float32)
    q = np.random.default_rng(2).dirichlet(np.ones(V))
    for found, expected in (
        (scores.logit(CHOSEN), y[ROWS, CHOSEN]),
        (scores.logits_of(words), y[:, words]),
        (scores.logits_of(words, offset=tf.constant(offset)), y[:, words] + offset),
        (scores.log_z(), log_z),
        (tf.stack(scores.for_training(CHOSEN)), [log_z, y[ROWS, CHOSEN]]),
        (scores.expected_logit(tf.constant(q)), y @ q),
        (compute_log_prob(scores, CHOSEN), y[ROWS, CHOSEN] - log_z),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-4)
    places = np.array([2, 0, 2, 8], np.int32)
    np.testing.assert_allclose(scores.take(places).logits(), y[places], atol=1e-5)
    nothing = scores.take(places[:0])
    assert nothing.logits().shape == (0, V)
    assert nothing.log_z().shape == (0,)
    of_places = y[places, CHOSEN[:4]] - log_z[places]
    found = compute_log_prob(scores, CHOSEN[:4], places)
    np.testing.assert_allclose(found, of_places, atol=1e-4)
