"""Perplexity as a Keras metric."""

import keras
import numpy as np
import pytest

from keras_nplm import Perplexity


def test_perplexity_is_over_tokens_and_not_over_batches():
    perplexity = Perplexity()
    assert float(perplexity.result()) == 1.0
    perplexity.update_state(np.log(np.array([2.0, 2.0, 2.0], np.float32)))
    perplexity.update_state(np.log(np.array([32.0], np.float32)))
    assert float(perplexity.result()) == pytest.approx((2 * 2 * 2 * 32) ** (1 / 4))  # 4, where batches would say 8


def test_sample_weights_count_tokens():
    perplexity = Perplexity()
    perplexity.update_state(np.log(np.array([2.0, 8.0], np.float32)), sample_weight=np.array([3.0, 1.0]))
    assert float(perplexity.result()) == pytest.approx((2**3 * 8) ** (1 / 4))
    perplexity.reset_state()
    assert float(perplexity.result()) == 1.0


def test_perplexity_is_serialised_by_its_registered_name():
    config = keras.saving.serialize_keras_object(Perplexity(name="other"))
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is Perplexity and restored.name == "other"
