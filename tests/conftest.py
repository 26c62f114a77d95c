"""What the tests share: where TFDS prepares its sets, the Brown archive where it is at hand, a small trained model."""

import dataclasses
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TFDS_DATA_DIR", tempfile.mkdtemp(prefix="tfds"))  # before anything imports TFDS

import pytest

import keras_nplm
from keras_nplm.training.train import train

CORPORA = Path(__file__).parents[2] / "shared" / "corpora"


@pytest.fixture(scope="session")
def brown_directory() -> Path:
    """The directory that holds brown.zip: `KERAS_NPLM_CORPORA`, or the one beside the project."""
    directory = Path(os.environ.get("KERAS_NPLM_CORPORA", CORPORA))
    if not (directory / "brown.zip").is_file():
        pytest.skip("brown.zip is not at hand: name its directory with KERAS_NPLM_CORPORA")
    return directory


@pytest.fixture(scope="session")
def small_configuration() -> keras_nplm.Configuration:
    """A small network of the paper's kind: concatenated context, one tanh layer."""
    small = dict(order=4, embedding_dim=8, hidden_units=12, epochs=2, batch_size=128, min_count=3)
    text = dict(boundary="sentence", vocabulary_scope="train")
    return dataclasses.replace(keras_nplm.CONFIGURATIONS["brown"], held_out_mass=0.0, **small, **text)


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory, small_configuration) -> Path:
    """A model trained on the embedded default by `train`; tests read it and write nothing there."""
    directory = tmp_path_factory.mktemp("models") / "small"
    train(small_configuration, keras_nplm.open_corpus(), directory)
    return directory
