"""A small language model with random weights, its model directory and its SavedModel."""

import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_nplm import NPLM, LanguageModel, Vocabulary, export_saved_model
from keras_nplm.serving import signatures

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
def predicting(language_model, build_once) -> Path:
    """A SavedModel of `predict_next` alone; tests read it and write nothing there."""
    export = functools.partial(export_saved_model, language_model, top_k=5)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(signatures, "FUNCTIONS", (signatures.PredictNext,))
        return build_once("predicting", export) / "1"


@pytest.fixture(scope="session")
def loaded(exported):
    return tf.saved_model.load(exported)


@pytest.fixture
def small_beam(monkeypatch):
    """Words of several tokens are searched with a small beam, in Python and in graphs."""

    def choose_small_beam(top_k: int, vocabulary_size: int) -> tuple[int, int]:
        return 16, 64

    monkeypatch.setattr("keras_nplm.language_model.completion.choose_beam", choose_small_beam)


@pytest.fixture
def cut_texts(monkeypatch):
    """A function that makes texts, a third with invalid bytes, of which only the end is read
    first.
    """
    monkeypatch.setattr("keras_nplm.serving.text.BYTES_PER_TOKEN", 1)
    monkeypatch.setattr("keras_nplm.serving.text.MORE_BYTES", 3)

    def make(characters: str, number: int) -> list[bytes]:
        random = np.random.default_rng(0)
        texts = []
        for _ in range(number):
            length = random.choice([0, 3, 12, 90])
            text = "".join(random.choice([*characters], length))
            texts.append(bytearray(text.encode()))
        for text in texts[::3]:
            num_invalid = 4 if text else 0
            for place in random.integers(0, max(len(text), 1), num_invalid):
                text[place] = random.choice([0x80, 0xBF, 0xE3, 0xF0, 0x9F, 0x20, 0xFF, 0xC3])
        return [bytes(text) for text in texts]

    return make
