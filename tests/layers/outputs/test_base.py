"""The unigram start: rare words, words that are never predicted. Outputs of a short-list."""

import numpy as np
import pytest

from keras_nplm import FullSoftmax

COUNTS = np.array([0, 5, 0, 0, 3, 2, 0, 0, 0, 0, 0])


def _started(min_count: int = 1, counts: np.ndarray = COUNTS, **options) -> FullSoftmax:
    output = FullSoftmax(11, **options)
    output.build((None, 2))
    output.set_unigram(counts, min_count)
    return output


def test_unigram_start_with_held_out_words():
    """Words that occur less often than `min_count` promises share the held-out mass."""
    output = _started(4, held_out_mass=0.1)
    short = np.array([0, 0, 0, 0, 1, 2, 4, 4, 4, 4, 4])
    expected = 0.9 * COUNTS / 10 + 0.1 * short / short.sum()
    expected[[0, 2, 3]] = 1e-12  # never predicted
    np.testing.assert_allclose(np.exp(output.b.numpy()), expected, rtol=1e-5)
    np.testing.assert_allclose(output.q.numpy(), short / short.sum(), rtol=1e-6)


def test_unigram_start_without_held_out_mass():
    assert np.exp(_started().b.numpy())[6] == pytest.approx(1 / 15)  # 10 tokens, and 5 words counted once each
    without_unknown = COUNTS * (np.arange(11) != 1)
    assert np.exp(_started(counts=without_unknown).b.numpy())[1] == pytest.approx(1 / 11)


def test_shortlist_has_one_output_for_all_other_words():
    output = FullSoftmax(30, shortlist_size=20, outside_output=True)
    assert output(np.ones((9, 6))).shape == (9, 25) and (output.listed, output.num_outputs) == (24, 25)
    assert np.asarray(output.output_ids(np.array([4, 23, 24, 29, 30]))).tolist() == [4, 23, 24, 24, 30]
    alone = FullSoftmax(30, shortlist_size=20)
    assert alone(np.ones((9, 6))).shape == (9, 24)
    assert np.asarray(alone.output_ids(np.array([4, 29]))).tolist() == [4, 29]
