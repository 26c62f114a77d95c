"""LiteRT and ONNX files answer like the model, in the runtimes that a device has."""

import numpy as np
import pytest

from keras_nplm import (
    NPLM,
    FullSoftmax,
    InputError,
    LanguageModel,
    Uniform,
    Vocabulary,
    export_litert,
    export_onnx,
)
from keras_nplm.cli.main import main
from keras_nplm.layers.context import AveragedContext
from keras_nplm.layers.hidden import DeepHidden

CONTEXTS = np.array([[2, 2, 2], [4, 5, 6], [9, 30, 7], [0, 0, 5]], np.int32)


@pytest.fixture(scope="module")
def language_model(model_directory) -> LanguageModel:
    return LanguageModel.load(model_directory)


def _litert(path, context_ids):
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is needed")
    return runtime.Interpreter(str(path)).get_signature_runner()(context_ids=context_ids)["log_probs"]


def _onnx(path, context_ids):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    session = runtime.InferenceSession(str(path))
    assert [output.name for output in session.get_outputs()] == ["log_probs"]
    return session.run(None, {"context_ids": context_ids})[0]


@pytest.mark.parametrize("name, run", [("next.tflite", _litert), ("next.onnx", _onnx)])
def test_the_command_writes_a_model_and_its_words(name, run, model_directory, language_model, tmp_path, capsys):
    if name.endswith("onnx"):
        pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    assert main(["export", str(model_directory), str(tmp_path / name)]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / name}, {tmp_path / name}.vocabulary.txt\n"
    assert Vocabulary.load(f"{tmp_path / name}.vocabulary.txt") == language_model.vocabulary
    for rows in (1, 4):  # any number of rows
        expected = language_model.model.next_log_probs(CONTEXTS[:rows])
        np.testing.assert_allclose(run(tmp_path / name, CONTEXTS[:rows]), expected, atol=2e-5)


def _layers(kind: str, dtype: str) -> dict:
    if kind == "tied":
        return {"output": FullSoftmax(40, tied=True, dtype=dtype)}
    if kind == "modern":
        return {
            "context": AveragedContext(40, 6, averages_after=(1,), dtype=dtype),
            "hidden": DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True, dtype=dtype),
        }
    return {"output": kind}


@pytest.mark.parametrize("kind", ["nce", "adaptive", "tied", "modern"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_each_kind_of_network_goes(kind, dtype, language_model, tmp_path):
    model = NPLM(
        40, order=4, embedding_dim=6, hidden_units=5, direct_connections=True, dtype=dtype, **_layers(kind, dtype)
    )
    words = Vocabulary([f"w{i}" for i in range(36)])
    path, _ = export_litert(LanguageModel(model, words, "words", "sentence"), tmp_path / "next.tflite")
    tolerance = 1e-5 if dtype == "float32" else 0.02  # files have float32 products
    np.testing.assert_allclose(_litert(path, CONTEXTS), model.next_log_probs(CONTEXTS), atol=tolerance)


def test_an_output_of_another_dtype_goes(tmp_path):
    words = Vocabulary([f"w{i}" for i in range(36)])
    output = FullSoftmax(40, dtype="mixed_bfloat16")
    model = NPLM(40, order=4, embedding_dim=6, hidden_units=5, output=output)
    path, _ = export_litert(LanguageModel(model, words, "words", "sentence"), tmp_path / "next.tflite")
    np.testing.assert_allclose(_litert(path, CONTEXTS), model.next_log_probs(CONTEXTS), atol=0.02)


def test_quantised_it_is_a_quarter_of_the_size_and_nearly_the_same(tmp_path):
    words = Vocabulary([f"w{i}" for i in range(1996)])
    model = NPLM(len(words), order=4, embedding_dim=32, hidden_units=64)
    language_model = LanguageModel(model, words, "words", "sentence")
    whole, _ = export_litert(language_model, tmp_path / "whole.tflite")
    small, _ = export_litert(language_model, tmp_path / "small.tflite", quantise=True)
    assert small.stat().st_size < 0.3 * whole.stat().st_size
    got, expected = (_litert(path, CONTEXTS) for path in (small, whole))
    assert 0 < np.abs(got - expected).max() < 0.1
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-4)


def test_misuse(language_model, model_directory, tmp_path, monkeypatch, capsys):
    uniform = LanguageModel(Uniform(12, "stream"), Vocabulary(list("abcdefgh")), "words", "stream")
    for export in (export_litert, export_onnx):
        with pytest.raises(InputError, match="can hold an NPLM only. Received: Uniform"):
            export(uniform, tmp_path / "file")
    with pytest.raises(InputError, match="is a directory"):
        export_litert(language_model, tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "tf2onnx", None)
    with pytest.raises(InputError, match="pip install 'keras-nplm"):
        export_onnx(language_model, tmp_path / "next.onnx")
    for flags, message in {
        "served --quantise": "--quantise is for the format litert",
        "a.tflite --top-k 3": "--top-k is for the format saved-model",
        "served --top-k 0": "`top_k` must be 1 or more",
        "a.onnx --format litert": "not one of the format litert",
        "a.tflite.gz": "not one of the format litert",
    }.items():
        assert main(["export", str(model_directory), *f"{tmp_path}/{flags}".split()]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", str(model_directory), ""]) == 2
    before = (model_directory / "model.keras").read_bytes()
    assert main(["export", str(model_directory), str(model_directory / "model.keras"), "--format", "litert"]) == 2
    assert (model_directory / "model.keras").read_bytes() == before
