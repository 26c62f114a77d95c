"""A small language model with random weights, its model directory and its SavedModel."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LanguageModel, Vocabulary, export_saved_model

WORDS = (
    "the . of a is to in value name object string not class if this The If with be function".split()
)


@pytest.fixture(scope="session")
def randomise():
    """A function that gives a network larger weights than its initial ones, so that probabilities
    differ.
    """

    def randomise(model: NPLM) -> NPLM:
        random = np.random.default_rng(0)
        weights = []
        for weight in model.get_weights():
            is_float = weight.dtype.kind == "f"
            weights.append(random.normal(0, 0.7, weight.shape) if is_float else weight)
        model.set_weights(weights)
        return model

    return randomise


@pytest.fixture(scope="session")
def language_model(randomise) -> LanguageModel:
    vocabulary = Vocabulary(WORDS)
    model = NPLM(len(vocabulary), order=4, embedding_dim=6, hidden_units=5, direct_connections=True)
    return LanguageModel(randomise(model), vocabulary, "words", "sentence")


@pytest.fixture(scope="session")
def directory(language_model, build_once) -> Path:
    """The model directory; tests read it and write nothing there."""
    return build_once("saved", language_model.save)


@pytest.fixture(scope="session")
def exported(language_model, build_once) -> Path:
    """The first version of the SavedModel; tests read it and write nothing there."""
    export = functools.partial(export_saved_model, language_model, top_k=5)
    return build_once("served", export) / "1"


@pytest.fixture(scope="session")
def loaded(exported):
    return tf.saved_model.load(exported)
