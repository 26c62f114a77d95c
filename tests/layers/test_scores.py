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
from keras_nplm.layers.pointer import Copies, CopyScores
from keras_nplm.layers.scores import LinearScores, Scores, StoredScores, compute_log_prob

V = 30  # words
W = 6  # features
B = 9  # contexts
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(B, W)).astype(np.float32)
X = RNG.normal(size=(B, 4)).astype(np.float32)


def randomise(layer: keras.layers.Layer) -> None:
    rng = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(rng.normal(0, 0.7, weight.shape))


def make_linear(width: int = W) -> LinearScores:
    head = LinearHead(V)
    head.build((None, width))
    randomise(head)
    return head.scores(tf.constant(FEATURES[:, :width]))


def make_direct(width: int = W) -> LinearScores:
    """Return y = b + U a + W x, with `width` hidden units."""
    direct = DirectConnection(V)
    direct.build((None, X.shape[1]))
    return direct.add(make_linear(width), tf.constant(X))


def make_direct_alone() -> LinearScores:
    """Return y = b + W x, of a network without a hidden layer."""
    return make_direct(0)


def make_biases_alone() -> LinearScores:
    return make_linear(0)


def make_stored() -> StoredScores:
    return StoredScores(tf.constant(RNG.normal(size=(B, V)).astype(np.float32)))


def make_copies() -> CopyScores:
    """Return scores of three segments of three targets each, with copies of some words."""
    weights = RNG.random((3, 5, 3)).astype(np.float32)
    ids = RNG.integers(4, 9, (3, 5)).astype(np.int32)
    return CopyScores(make_linear(), Copies(tf.constant(weights), tf.constant(ids)))


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


SCORES = [
    pytest.param(make_linear, id="linear"),
    pytest.param(make_direct, id="direct"),
    pytest.param(make_direct_alone, id="direct alone"),
    pytest.param(make_biases_alone, id="biases alone"),
    pytest.param(make_stored, id="stored"),
    pytest.param(make_copies, id="copies"),
    pytest.param(make_adaptive, id="adaptive"),
    pytest.param(make_energy, id="energy"),
]
of_all_scores = pytest.mark.parametrize("make", SCORES)
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
        if inspect.isclass(value) and value is not Scores and hasattr(value, "for_training")
    }
    assert classes == {type(make.values[0]()) for make in SCORES}


@of_all_scores
def test_every_question_has_the_answer_of_all_logits(make):
    scores = make()
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


@pytest.mark.parametrize(
    "make",
    [
        make_linear,
        make_direct,
        make_direct_alone,
        make_biases_alone,
        make_adaptive,
        make_copies,
    ],
)
def test_training_and_evaluation_have_one_gradient(make):
    """`for_training` has a gradient of its own; `logits` that of TensorFlow."""
    scores = make()
    linear = scores.scores if isinstance(scores, CopyScores) else scores
    is_linear = isinstance(linear, LinearScores)
    of_linear = [*linear.kernels, linear.bias] if is_linear else []
    variables = of_linear or linear.head.trainable_weights
    values = [variable.value for variable in variables]
    upstream = np.linspace(1, 2, B).astype(np.float32)
    with tf.GradientTape() as tape:
        log_z, logit = scores.for_training(CHOSEN)
        total = tf.reduce_sum(upstream * (log_z - logit))
    found = tape.gradient(total, values)
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(scores.logits())
        total = -tf.reduce_sum(upstream * tf.gather(log_probs, CHOSEN, batch_dims=1))
    expected = tape.gradient(total, values)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(tf.convert_to_tensor(one), other, atol=1e-4)
