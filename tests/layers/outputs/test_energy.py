"""The energy-based output: its weights, dropout of the hidden units that contexts and words share."""

import numpy as np

from keras_nplm import NPLM

V, M, H, N = 40, 3, 5, 4


def test_C_is_the_only_matrix_with_a_row_per_word():
    model = NPLM(V, N, M, H, output="energy")
    assert sum(weight.numpy().size for weight in model.trainable_weights) == V * (M + 1) + H * (N * M + 2)
    assert {bias.name for bias in model.prob.biases} == {"b", "d"}  # no weight decay on these
    assert sorted(tuple(weight.shape) for weight in model.trainable_weights if V in weight.shape) == [(V,), (V, M)]
    assert model.hidden is None and model.hidden_units == model.prob.hidden_units == H


def test_dropout_leaves_out_hidden_units_in_training():
    prob = NPLM(V, N, M, H, output="energy", dropout=0.5).prob
    x = np.ones((400, (N - 1) * M), np.float32)
    _, trained = prob.project(x, training=True)
    _, plain = prob.project(x)
    np.testing.assert_array_equal(plain, prob.v)
    ratio = (trained / prob.v).numpy().round(4)
    assert set(np.unique(ratio)) == {0.0, 2.0} and 0.45 < (ratio > 0).mean() < 0.55
