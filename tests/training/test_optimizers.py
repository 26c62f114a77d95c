"""Sparse updates against NumPy, with and without XLA; rows without a gradient do not change."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LazyAdagrad, LazyAdam, LazySGD
from tests.networks import randomise

ROWS = 6
WIDTH = 3
RATE = 0.1
DECAY = 0.5
EPSILON = 0.01
OPTIMIZERS = [LazySGD, LazyAdagrad, LazyAdam]
START = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
TOUCHED = np.array([1, 4, 1], np.int32)  # the rows with a gradient, one of them twice
GRADIENTS = np.random.default_rng(1).normal(size=(4, 3, WIDTH)).astype(np.float32)


def _update(optimizer, jit, dense):
    """The rows after some updates by an optimiser that was saved and loaded."""
    variable = keras.Variable(START)
    saved = keras.saving.serialize_keras_object(optimizer)
    optimizer = keras.saving.deserialize_keras_object(saved)
    optimizer.build([variable])

    @tf.function(jit_compile=jit, autograph=False)
    def step(values):
        gradient = tf.IndexedSlices(values, TOUCHED, tf.constant([ROWS, WIDTH]))
        optimizer.apply([tf.convert_to_tensor(gradient) if dense else gradient], [variable])

    for values in GRADIENTS:
        step(tf.constant(values))
    return variable.numpy()


def _update_plainly(make, decay, decays_all):
    """The published update of each row that has a gradient."""
    theta = START.astype(np.float64)
    accumulated = np.full_like(theta, 0.1)
    m, v = np.zeros((2, ROWS, WIDTH))
    rows = np.unique(TOUCHED)
    for t, values in enumerate(GRADIENTS.astype(np.float64), start=1):
        g = np.stack([values[row == TOUCHED].sum(axis=0) for row in rows])
        theta[... if decays_all else rows] *= 1 - RATE * decay
        accumulated[rows] += g**2
        m[rows] = 0.9 * m[rows] + 0.1 * g
        v[rows] = 0.999 * v[rows] + 0.001 * g**2
        theta[rows] -= (
            RATE
            * {
                LazySGD: g,
                LazyAdagrad: g / np.sqrt(accumulated[rows] + EPSILON),
                LazyAdam: m[rows]
                / (1 - 0.9**t)
                * (1 - 0.999**t) ** 0.5
                / (v[rows] ** 0.5 + EPSILON),
            }[make]
        )
    return theta


@pytest.mark.parametrize(
    "decay, decays_all, jit, dense",
    [
        (0.0, False, False, False),
        (DECAY, False, True, False),
        (DECAY, True, False, False),
        (DECAY, True, False, True),
    ],
)
@pytest.mark.parametrize("make", OPTIMIZERS)
def test_updates_follow_their_formulas(make, decay, decays_all, jit, dense):
    """Only rows with a gradient change, but for the decay of all rows, where it is asked for."""
    options = {"weight_decay": decay or None, "dense_decay": decays_all}
    options |= {} if make is LazySGD else {"epsilon": EPSILON}
    found = _update(make(RATE, **options), jit, dense)
    expected = _update_plainly(make, decay, decays_all)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if not decays_all:
        untouched = np.delete(np.arange(ROWS), TOUCHED)
        np.testing.assert_array_equal(found[untouched], START[untouched])


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_half_precision_weights_take_gradients_of_replicas(make):
    """On replicas 16-bit gradients are summed as float32."""
    variable = keras.Variable([[1.0], [0.0]], dtype="bfloat16")
    options = {"beta_2": 0.5} if make is LazyAdam else {}  # 0.999 is 1 in 16 bits, as in Keras
    gradient = tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 1]), tf.constant([2, 1]))
    make(RATE, **options).apply([gradient], [variable])
    first, second = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))[:, 0]
    assert first == 1 and second < 0


def test_biases_that_the_user_leaves_out_do_not_decay():
    model = randomise(NPLM(9, 3, 2, 2))
    optimizer = LazySGD(RATE, weight_decay=DECAY, dense_decay=True)
    optimizer.exclude_from_weight_decay(var_list=model.biases)
    weights = model.trainable_weights
    optimizer.build(weights)
    before = [weight.numpy() for weight in weights]
    # without a gradient only the decay changes a weight
    optimizer.apply([keras.ops.zeros_like(weight) for weight in weights], weights)
    pairs = zip(weights, before, strict=True)
    assert {weight.name for weight, old in pairs if np.array_equal(weight, old)} == {"b", "d"}


def test_rows_and_dense_gradients_take_a_bounded_step():
    """An optimiser that was saved and loaded; rows of numbers have no length."""
    start = [np.zeros((3, 2)), np.zeros(3)]
    values = tf.constant([[3.0, 4.0], [0.3, 0.4], [3.0, 4.0]])
    rows = tf.IndexedSlices(values, tf.constant([0, 1, 0]), tf.constant([3, 2]))
    numbers = tf.IndexedSlices(tf.constant([5.0]), tf.constant([2]), tf.constant([3]))
    dense = [tf.constant([[3.0, 0], [0, 4.0], [0, 0]]), tf.constant([0.3, 0.4, 0])]
    for options, gradients, steps in (
        ({"row_clipnorm": 1.0}, [rows, numbers], ([[0.6, 0.8], [0.3, 0.4], [0, 0]], [0, 0, 5])),
        ({"dense_clipnorm": 1.0}, dense, ([[0.6, 0], [0, 0.8], [0, 0]], [0.3, 0.4, 0])),
    ):
        variables = [keras.Variable(value) for value in start]
        LazySGD.from_config(LazySGD(1.0, **options).get_config()).apply(gradients, variables)
        for variable, step in zip(variables, steps, strict=True):
            np.testing.assert_allclose(variable.numpy(), -np.array(step), rtol=1e-6)
