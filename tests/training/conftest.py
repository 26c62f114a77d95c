"""A short text and small options, on which a run takes one or two seconds."""

from pathlib import Path

import keras
import numpy as np
import pytest

from keras_nplm import Corpus, Options, TextOptions, estimate, open_corpus

collect_ignore = ["own_parts.py"]  # importing it registers its parts in every test


@pytest.fixture(scope="session")
def short_text(tmp_path_factory) -> Path:
    """400 lines of 3 to 11 words, about 30 word types by Zipf's law."""
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{i}" for i in rng.zipf(1.5, rng.integers(3, 12)) % 30) for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def short_corpus(short_text) -> Corpus:
    return open_corpus(train=[str(short_text)])


@pytest.fixture(scope="session")
def short_options(small_options) -> Options:
    return small_options.replace(batch_size=64, min_count=2)


@pytest.fixture(scope="session")
def kneser_ney_directory(build_once, small_options) -> Path:
    """A Kneser-Ney model of the text of `model_directory`; tests write nothing there."""
    order = small_options.network.order
    text = TextOptions(min_count=small_options.text.min_count)

    def write(path: Path) -> None:
        estimate("kneser-ney", open_corpus(), path, order=order, text=text)

    return build_once("kneser-ney", write)


@pytest.fixture(scope="session")
def load_weights():
    """A function from a model directory to the weights of its network."""

    def load(directory: Path) -> list[np.ndarray]:
        return keras.models.load_model(directory / "model.keras", compile=False).get_weights()

    return load


@pytest.fixture(scope="session")
def assert_same_weights(load_weights):
    """A function that compares the networks of two model directories bit for bit."""

    def compare(left: Path, right: Path) -> None:
        for one, other in zip(load_weights(left), load_weights(right), strict=True):
            np.testing.assert_array_equal(one, other)

    return compare
