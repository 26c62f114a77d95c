"""The full softmax: outputs of a short-list, half precision."""

import keras
import numpy as np

from keras_nplm import FullSoftmax

FEATURES = np.random.default_rng(1).normal(size=(9, 6)).astype(np.float32)


def test_shortlist_has_one_output_for_all_other_words():
    output = FullSoftmax(30, shortlist_size=20, outside_output=True)
    assert output(FEATURES).shape == (9, 25) and (output.listed, output.num_outputs) == (24, 25)
    assert np.asarray(output.output_ids(np.array([4, 23, 24, 29, 30]))).tolist() == [4, 23, 24, 24, 30]
    alone = FullSoftmax(30, shortlist_size=20)
    assert alone(FEATURES).shape == (9, 24)
    assert np.asarray(alone.output_ids(np.array([4, 29]))).tolist() == [4, 29]


def test_mixed_precision_probabilities_sum_to_one():
    probabilities = FullSoftmax(30, dtype="mixed_bfloat16")(keras.ops.cast(FEATURES, "bfloat16"))
    assert probabilities.dtype == "float32"
    np.testing.assert_allclose(np.asarray(probabilities).sum(axis=1), 1, rtol=1e-5)
