"""The linear head as arrays, and its start. Its scores: `tests/models/networks`."""

import numpy as np

from keras_nplm import LinearHead

V = 30


def test_the_full_kernel_is_a_row_for_each_word():
    """As the arrays of a network store it; of low rank a product, without features empty."""
    head = LinearHead(V, rank=2)
    head.build((None, 6))
    np.testing.assert_allclose(head.full_kernel(), head.U.numpy() @ head.P.numpy().T, atol=1e-6)
    head = LinearHead(7)
    head.build((None, 0))
    assert head.full_kernel().shape == (7, 0)


def test_the_unigram_start_is_in_the_biases():
    head = LinearHead(7)
    head.build((None, 0))
    head.set_unigram(np.arange(7) / 21)
    found = head(np.zeros((2, 0), np.float32))
    np.testing.assert_allclose(found, [np.arange(7) / 21] * 2, rtol=1e-6, atol=2e-12)
