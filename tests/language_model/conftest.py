"""A small n-gram language model, which needs neither Keras nor TensorFlow."""

from collections.abc import Callable

import numpy as np
import pytest

from keras_nplm import LanguageModel, Vocabulary, kneser_ney


@pytest.fixture(scope="session")
def build_ngram_model() -> Callable[[str], LanguageModel]:
    """A function of the boundary that returns a trigram model of five words."""

    def build(boundary: str) -> LanguageModel:
        vocabulary = Vocabulary(["the", "cat", "sat", "on", "mat"])
        ids = np.random.default_rng(0).choice([1, 3, 4, 4, 5, 6, 7, 8], 300).astype(np.int32)
        model = kneser_ney(np.append(ids, 3).astype(np.int32), len(vocabulary), 3, boundary)
        return LanguageModel(model, vocabulary, "words")

    return build
