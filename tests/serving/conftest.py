"""A small language model with random weights, its model directory and its SavedModel."""

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
        model.set_weights(
            [
                random.normal(0, 0.7, w.shape) if w.dtype.kind == "f" else w
                for w in model.get_weights()
            ]
        )
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
    return (
        build_once("served", lambda path: export_saved_model(language_model, path, top_k=5)) / "1"
    )


@pytest.fixture(scope="session")
def loaded(exported):
    return tf.saved_model.load(exported)


@pytest.fixture
def cut_texts(monkeypatch):
    """A function that makes texts, a third with invalid bytes, of which only the end is read
    first.
    """
    monkeypatch.setattr("keras_nplm.serving.text._BYTES_PER_TOKEN", 1)
    monkeypatch.setattr("keras_nplm.serving.text._MORE_BYTES", 3)

    def make(characters: str, number: int) -> list[bytes]:
        random = np.random.default_rng(0)
        texts = [
            "".join(random.choice([*characters], random.choice([0, 3, 12, 90])))
            for _ in range(number)
        ]
        texts = [bytearray(text.encode()) for text in texts]
        for text in texts[::3]:
            for place in random.integers(0, max(len(text), 1), 4 * bool(text)):
                text[place] = random.choice([0x80, 0xBF, 0xE3, 0xF0, 0x9F, 0x20, 0xFF, 0xC3])
        return list(map(bytes, texts))

    return make
