"""The energy-based output: dropout of the hidden units that contexts and words share, weights without decay."""

import numpy as np

from keras_nplm import NPLM


def test_dropout_leaves_out_the_same_hidden_units_for_all_words():
    prob = NPLM(40, 4, 3, 5, output="energy", dropout=0.5).prob
    assert prob.hidden_units == 5 and {bias.name for bias in prob.biases} == {"b", "d"}
    x = np.ones((400, 9), np.float32)
    (_, trained), (_, plain) = prob.project(x, training=True), prob.project(x)
    np.testing.assert_array_equal(plain, prob.v)
    ratio = (trained / prob.v).numpy().round(4)
    assert set(np.unique(ratio)) == {0.0, 2.0} and 0.45 < (ratio > 0).mean() < 0.55
