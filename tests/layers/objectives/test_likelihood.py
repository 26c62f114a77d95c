"""Likelihood: label smoothing towards held-out words and log Z near 0, against NumPy."""

import numpy as np
import tensorflow as tf

from keras_nplm import Likelihood
from keras_nplm.layers.ops import NewRows
from keras_nplm.layers.scores import StoredScores

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(9, 7)).astype(np.float32)
TARGETS = RNG.integers(0, 7, 9).astype(np.int32)
ROWS = np.arange(9)
LOG_Z = np.logaddexp.reduce(Y.astype(np.float64), axis=1)
NEGATIVE = LOG_Z - Y[ROWS, TARGETS]


def compute(objective: Likelihood) -> tuple[np.ndarray, np.ndarray]:
    loss, negative = objective.losses(StoredScores(tf.constant(Y)), tf.constant(TARGETS))
    return loss.numpy(), negative.numpy()


def test_the_loss_is_the_negative_log_likelihood():
    objective = Likelihood()
    objective.build((None, 7))
    loss, negative = compute(objective)
    assert objective.weights == []
    np.testing.assert_allclose(loss, NEGATIVE, rtol=1e-5)
    np.testing.assert_allclose(negative, NEGATIVE, rtol=1e-5)


def test_held_out_words_have_a_share_of_each_target():
    objective = Likelihood(held_out_mass=0.2)
    objective.build((None, 7))
    np.testing.assert_allclose(objective.q.numpy(), 1 / 7, rtol=1e-6)  # uniform at first
    q = RNG.dirichlet(np.ones(7))
    objective.set_unigram(np.ones(7) / 7, q)
    loss, negative = compute(objective)
    of_held_out = LOG_Z - Y @ q
    np.testing.assert_allclose(loss, 0.8 * NEGATIVE + 0.2 * of_held_out, rtol=1e-5)
    np.testing.assert_allclose(negative, NEGATIVE, rtol=1e-5)  # for the perplexity
    assert objective.trainable_weights == []


def test_self_normalisation_adds_the_square_of_log_z():
    objective = Likelihood(self_normalisation=0.3)
    objective.build((None, 7))
    loss, negative = compute(objective)
    np.testing.assert_allclose(loss, NEGATIVE + 0.3 * LOG_Z**2, rtol=1e-5)
    np.testing.assert_allclose(negative, NEGATIVE, rtol=1e-5)


def test_q_grows_with_the_vocabulary():
    small = Likelihood(held_out_mass=0.2)
    small.build((None, 3))
    small.q.assign([0.5, 0.2, 0.3])
    grown = Likelihood(held_out_mass=0.2)
    grown.build((None, 5))
    rows = NewRows(np.ones((2, 3)), np.ones((2, 5)), np.ones(2), np.array([0.1, 0.1]))
    grown.grow_from(small, rows)
    np.testing.assert_allclose(grown.q.numpy(), [0.25, 0.1, 0.15, 0.25, 0.25], rtol=1e-6)
