"""Sparse updates against NumPy and Keras, with and without XLA; rows without a gradient do not
change.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LazyAdagrad, LazyAdam, LazySGD

ROWS = 6
WIDTH = 3
RATE = 0.1
DECAY = 0.5
BASES = {
    LazySGD: keras.optimizers.SGD,
    LazyAdagrad: keras.optimizers.Adagrad,
    LazyAdam: keras.optimizers.Adam,
}


def _start():
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)


def _steps(number=4):
    """Gradients of two rows, one of them twice."""
    rng = np.random.default_rng(1)
    return [
        (rng.normal(size=(3, WIDTH)).astype(np.float32), np.array([1, 4, 1], np.int32))
        for _ in range(number)
    ]


def _run(optimizer, jit=False, dense=False):
    variable = keras.Variable(_start())
    # as it is saved and loaded
    saved = keras.saving.serialize_keras_object(optimizer)
    optimizer = keras.saving.deserialize_keras_object(saved)
    optimizer.build([variable])

    @tf.function(jit_compile=jit, autograph=False)
    def step(values, ids):
        gradient = tf.IndexedSlices(values, ids, tf.constant([ROWS, WIDTH]))
        optimizer.apply([tf.convert_to_tensor(gradient) if dense else gradient], [variable])

    for values, ids in _steps():
        step(tf.constant(values), tf.constant(ids))
    return variable.numpy()


def _oracle(make, decay):
    """The published update of each row that has a gradient."""
    theta = _start().astype(np.float64)
    accumulated = np.full_like(theta, 0.1)
    m = np.zeros_like(theta)
    v = np.zeros_like(theta)
    for t, (values, ids) in enumerate(_steps(), start=1):
        for row in np.unique(ids):
            g = values[ids == row].astype(np.float64).sum(axis=0)
            theta[row] *= 1 - RATE * decay
            if make is LazySGD:
                theta[row] -= RATE * g
            elif make is LazyAdagrad:
                accumulated[row] += g**2
                theta[row] -= RATE * g / np.sqrt(accumulated[row] + 1e-7)
            else:
                m[row] = 0.9 * m[row] + 0.1 * g
                v[row] = 0.999 * v[row] + 0.001 * g**2
                theta[row] -= (
                    RATE * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m[row] / (np.sqrt(v[row]) + 1e-7)
                )
    return theta


@pytest.mark.parametrize("decay, jit", [(0.0, False), (DECAY, True)])
@pytest.mark.parametrize("make", BASES)
def test_only_rows_with_a_gradient_are_updated(make, decay, jit):
    found = _run(make(RATE, weight_decay=decay or None), jit)
    np.testing.assert_allclose(found, _oracle(make, decay), rtol=1e-4, atol=1e-5)
    untouched = [0, 2, 3, 5]
    np.testing.assert_array_equal(found[untouched], _start()[untouched])


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("make", BASES)
def test_updates_equal_those_of_keras(make, dense):
    """Every step has a gradient of the same rows: the moments of the other rows, which dense Adam
    uses, stay 0.
    """
    options = {"weight_decay": DECAY} | ({} if make is LazySGD else {"epsilon": 0.5})
    decayed = _run(BASES[make](RATE, **options), dense=True)
    found = _run(make(RATE, dense_decay=True, **options), dense=dense)
    np.testing.assert_allclose(found, decayed, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", BASES)
def test_half_precision_weights_take_gradients_of_replicas(make):
    """On replicas 16-bit gradients are summed as float32."""
    variable = keras.Variable([[1.0], [0.0]], dtype="bfloat16")
    options = {"beta_2": 0.5} if make is LazyAdam else {}  # 0.999 is 1 in 16 bits, as in Keras
    gradient = tf.IndexedSlices(tf.ones([2, 1]), tf.constant([1, 1]), tf.constant([2, 1]))
    make(RATE, **options).apply([gradient], [variable])
    first, second = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))[:, 0]
    assert first == 1 and second < 0


def test_biases_are_left_out_of_decay_by_the_user_and_after_loading(tmp_path):
    model = NPLM(9, 3, 2, 2)
    optimizer = LazySGD(RATE, weight_decay=DECAY, dense_decay=True)
    optimizer.exclude_from_weight_decay(var_list=model.biases)
    model.compile(optimizer)
    model.fit(np.ones((2, 2), np.int32), np.ones(2, np.int32), verbose=0)
    model.save(tmp_path / "model.keras")
    for each in (model, keras.models.load_model(tmp_path / "model.keras")):
        weights = each.trainable_weights
        before = [weight.numpy() for weight in weights]
        # without a gradient only the decay changes a weight
        each.optimizer.apply([keras.ops.zeros_like(weight) for weight in weights], weights)
        pairs = zip(weights, before, strict=True)
        assert {weight.name for weight, old in pairs if np.array_equal(weight, old)} == {"b", "d"}
        assert all(old.any() for old in before)


def test_rows_and_dense_gradients_take_a_bounded_step():
    weight = keras.Variable(np.zeros((3, 2)))
    bias = keras.Variable(np.zeros(3))
    values = tf.constant([[3.0, 4.0], [0.3, 0.4], [3.0, 4.0]])
    rows = tf.IndexedSlices(values, tf.constant([0, 1, 0]), tf.constant([3, 2]))
    numbers = tf.IndexedSlices(tf.constant([5.0]), tf.constant([2]), tf.constant([3]))
    optimizer = LazySGD.from_config(LazySGD(1.0, row_clipnorm=1.0).get_config())
    optimizer.apply([rows, numbers], [weight, bias])
    np.testing.assert_allclose(weight.numpy(), [[-0.6, -0.8], [-0.3, -0.4], [0, 0]], rtol=1e-6)
    assert bias.numpy().tolist() == [0, 0, -5]
    large = keras.Variable(np.zeros((2, 2)))
    small = keras.Variable(np.zeros(2))
    optimizer = LazySGD.from_config(LazySGD(1.0, dense_clipnorm=1.0).get_config())
    optimizer.apply([tf.constant([[3.0, 0], [0, 4.0]]), tf.constant([0.3, 0.4])], [large, small])
    np.testing.assert_allclose(large.numpy(), [[-0.6, 0], [0, -0.8]], rtol=1e-6)
    np.testing.assert_allclose(small.numpy(), [-0.3, -0.4], rtol=1e-6)
