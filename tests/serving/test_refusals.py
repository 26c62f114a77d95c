"""Exports that are refused, and leave nothing; `messages.json` has the sentences."""

import functools
import sys

import pytest

from keras_nplm import (
    LanguageModel,
    Mixture,
    Uniform,
    Vocabulary,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from tests.networks import compose

VOCABULARY = Vocabulary(["the"])
SIZE = len(VOCABULARY)


@pytest.fixture
def target(tmp_path):
    """A directory with a file, which is all that it holds afterwards."""
    (tmp_path / "file").touch()
    yield tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_for_devices_of_other_models(target, messages, capsys):
    uniform = Uniform(SIZE, "stream")
    network = compose(SIZE, boundary="stream")
    without_ngrams = compose(SIZE, kind=HybridNetwork, boundary="stream")
    for model, is_alone in (
        (Mixture([without_ngrams, uniform], [0.5, 0.5]), False),
        (uniform, True),
        (Mixture([network, network], [0.5, 0.5]), True),
    ):
        language_model = LanguageModel(model, VOCABULARY, "words")
        export = functools.partial(export_litert, language_model, target / "new.tflite")
        messages.refuse(functools.partial(export, network_alone=is_alone))
    assert not capsys.readouterr().err


def test_arrays_beyond_the_limit_of_a_file(language_model, target, monkeypatch, messages):
    monkeypatch.setattr("keras_nplm.serving.on_device.MAX_BYTES", 1000)
    messages.refuse(lambda: export_litert(language_model, target / "new.tflite"))


def test_targets_and_signatures_of_files(language_model, directory, target, monkeypatch, messages):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)  # it is refused before the conversion
    messages.refuse(lambda: export_onnx(language_model, target))
    messages.refuse(
        lambda: export_onnx(language_model, target / "file")
    )  # it would be written over
    messages.refuse(lambda: export_litert(language_model, target / "new.onnx"))
    messages.refuse(lambda: export_litert(language_model, target / "new", signature="embed"))
    with pytest.raises(ValueError, match="lies in the model directory"):  # whose name varies
        export_litert(language_model, directory / "model.keras")


def test_targets_of_a_saved_model(language_model, target, messages, monkeypatch):
    monkeypatch.chdir(target.parent)
    # others, a file, a path through a file, and what no model name can be
    for name in (".", "file", "file/served", "sp ace", "a:b", "über", "5"):
        messages.refuse(functools.partial(export_saved_model, language_model, target / name))
