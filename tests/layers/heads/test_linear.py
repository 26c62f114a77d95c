"""The linear head: low rank, tied to C, of the most frequent words; what it refuses."""

import keras
import numpy as np
import pytest

from keras_nplm import LinearHead
from keras_nplm.layers.ops import NewRows

V = 30
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(9, 6)).astype(np.float32)


def test_logits_of_low_rank():
    head = LinearHead(V, rank=2)
    y = head(FEATURES)
    U = head.U.numpy()
    P = head.P.numpy()
    assert U.shape == (V, 2)
    np.testing.assert_allclose(y, FEATURES @ P @ U.T, atol=1e-5)
    np.testing.assert_allclose(head.full_kernel(), (P @ U.T).T, atol=1e-6)


def test_a_tied_head_has_C_as_its_rows_and_does_not_own_it():
    C = keras.Variable(RNG.normal(size=(V, 3)), autocast=False)
    head = LinearHead(V, tied=True)
    head.tie(C)
    y = head(FEATURES)
    np.testing.assert_allclose(y, FEATURES @ head.P.numpy() @ C.numpy().T, atol=1e-5)
    stored: dict = {}
    head.save_own_variables(stored)
    sizes = sorted(tuple(value.shape) for value in stored.values())
    assert sizes == [(6, 3), (V,)]


def test_a_short_list_scores_the_most_frequent_words():
    head = LinearHead(V, num_outputs=24)
    assert head.num_outputs == 24
    assert head(FEATURES).shape == (9, 24) == head.compute_output_shape(FEATURES.shape)


def test_a_head_without_features_has_biases_alone():
    head = LinearHead(7)
    head.build((None, 0))
    head.set_unigram(np.arange(7) / 21)
    expected = np.log(np.maximum(np.arange(7) / 21, 1e-12))
    np.testing.assert_allclose(head(FEATURES[:, :0]), np.tile(expected, (9, 1)), rtol=1e-6)
    assert head.full_kernel().shape == (7, 0)


def test_new_words_have_the_rows_that_they_are_given():
    small = LinearHead(V, rank=2)
    small.build((None, 6))
    grown = LinearHead(V + 2, rank=2)
    grown.build((None, 6))
    kernel = RNG.normal(size=(2, 5))  # U, then the columns of direct connections
    rows = NewRows(np.ones((2, 3)), kernel, np.array([1.0, 2.0]), np.array([0.1, 0.1]))
    grown.grow_from(small, rows)
    np.testing.assert_allclose(grown.U.numpy()[V:], kernel[:, :2], rtol=1e-6)
    np.testing.assert_array_equal(grown.b.numpy()[V:], [1, 2])
    np.testing.assert_array_equal(grown(FEATURES)[:, :V], small(FEATURES))


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "float64"])
def test_logits_have_float32_at_least(dtype):
    head = LinearHead(V, dtype=dtype)
    y = head(FEATURES)
    assert y.dtype.name == ("float64" if dtype == "float64" else "float32")
    np.testing.assert_allclose(y, FEATURES @ head.U.numpy().T, atol=1e-5)
