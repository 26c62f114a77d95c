"""Invalid input of the exports is refused in one line that names it."""

import sys

import pytest

from keras_nplm import (
    InputError,
    LanguageModel,
    Mixture,
    Uniform,
    Vocabulary,
    export_litert,
    export_onnx,
    export_saved_model,
)
from keras_nplm.models.networks.hybrid_network import HybridNetwork
from keras_nplm.serving import build_graph
from keras_nplm.serving.signatures import ServingModule
from tests.networks import compose

VOCABULARY = Vocabulary(["the"])
SIZE = len(VOCABULARY)


@pytest.fixture
def target(tmp_path):
    """A directory with a file, which is all that it holds afterwards."""
    (tmp_path / "file").touch()
    yield tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def build_uniform() -> Uniform:
    return Uniform(SIZE, "stream")


def build_mixture_of_two_networks() -> Mixture:
    return Mixture([compose(SIZE, boundary="stream") for _ in range(2)], [0.5, 0.5])


def build_hybrid_network() -> HybridNetwork:
    return compose(SIZE, kind=HybridNetwork, boundary="stream")


def build_mixture_of_hybrid_network() -> Mixture:
    return Mixture([build_hybrid_network(), build_uniform()], [0.5, 0.5])


@pytest.mark.parametrize(
    "build, received",
    [
        pytest.param(build_hybrid_network, "HybridNetwork", id="hybrid network"),
        pytest.param(
            build_mixture_of_hybrid_network, "HybridNetwork", id="hybrid network in a mixture"
        ),
    ],
)
def test_files_for_devices_of_other_models_are_refused(build, received, target, capsys):
    language_model = LanguageModel(build(), VOCABULARY, "words")
    message = f"LiteRT and ONNX files .* Received: {received}. Fix: export .* as a SavedModel"
    with pytest.raises(InputError, match=message):
        export_litert(language_model, target / "new")
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    "build, received",
    [
        pytest.param(build_uniform, "Uniform", id="no network"),
        pytest.param(build_mixture_of_two_networks, "Mixture", id="two networks"),
    ],
)
def test_the_network_alone_needs_one_network(build, received, target):
    language_model = LanguageModel(build(), VOCABULARY, "words")
    message = f"with `--network-alone` .* Received: {received}. Fix: leave it out"
    with pytest.raises(InputError, match=message):
        export_litert(language_model, target / "new", network_alone=True)


def test_arrays_beyond_the_limit_of_a_file_are_refused(language_model, target, monkeypatch):
    monkeypatch.setattr("keras_nplm.serving.on_device.MAX_BYTES", 1000)
    with pytest.raises(
        InputError, match="at most 1,000 bytes. Received: 3,260.* `--network-alone`"
    ):
        export_litert(language_model, target / "new")


def test_a_directory_is_no_file_for_devices(language_model, target, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)  # it is refused before the conversion
    with pytest.raises(InputError, match="directory"):
        export_onnx(language_model, target)


def test_a_file_in_a_model_directory_is_refused(language_model, directory):
    with pytest.raises(InputError, match="lies in the model directory"):
        export_litert(language_model, directory / "model.keras")


def test_an_unknown_signature_is_refused(language_model, target):
    message = "`signature` must be log_probs or score. Received: 'embed'"
    with pytest.raises(InputError, match=message):
        export_litert(language_model, target / "new", signature="embed")


@pytest.mark.parametrize(
    "name, message",
    [
        pytest.param(".", "which holds other files", id="directory with files"),
        pytest.param("file", "must be a directory.*file, which is a file", id="file"),
        pytest.param("file/served", "Not a directory", id="path through a file"),
        pytest.param("sp ace", "becomes the model name", id="name with a space"),
        pytest.param("a:b", "becomes the model name", id="name with a colon"),
        pytest.param("über", "becomes the model name", id="name beyond ASCII"),
        pytest.param("5", "becomes the model name", id="name of a version"),
    ],
)
def test_targets_of_a_saved_model_are_refused(language_model, target, name, message):
    with pytest.raises(InputError, match=message):
        export_saved_model(language_model, target / name)


@pytest.mark.parametrize(
    "options, message",
    [
        pytest.param({"top_k": 0}, "`top_k` must be 1 or more", id="no words"),
        pytest.param(
            {"max_text_length": (1 << 30) + 1}, "`max_text_length` must be 1 to", id="too long"
        ),
        pytest.param({"max_text_length": 0}, "`max_text_length` must be 1 to", id="no bytes"),
    ],
)
def test_options_out_of_range_are_refused(language_model, options, message):
    with pytest.raises(InputError, match=message):
        ServingModule(language_model, **options)


def test_what_is_no_model_has_no_graph():
    with pytest.raises(InputError, match="to be served. Received: object"):
        build_graph(object())
