"""LiteRT and ONNX files give the log-probabilities of the model, in the runtimes of devices."""

import sys

import numpy as np
import pytest

from keras_nplm import NPLM, FullSoftmax, InputError, LanguageModel, Uniform, Vocabulary, export_litert, export_onnx
from keras_nplm.cli.main import main
from keras_nplm.layers.context import AveragedContext
from keras_nplm.layers.hidden import DeepHidden

CONTEXTS = np.array([[2, 2, 2], [4, 5, 6], [9, 20, 7], [0, 0, 5]], np.int32)


def _run_litert(path, context_ids):
    runtime = pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is needed")
    return runtime.Interpreter(str(path)).get_signature_runner()(context_ids=context_ids)["log_probs"]


def _run_onnx(path, context_ids):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is needed")
    session = runtime.InferenceSession(str(path))
    assert [output.name for output in session.get_outputs()] == ["log_probs"]
    return session.run(None, {"context_ids": context_ids})[0]


def _check_files(written, target, run, language_model):
    assert [str(path) for path in written] == [str(target), f"{target}.vocabulary.txt"]
    assert Vocabulary.load(f"{target}.vocabulary.txt") == language_model.vocabulary
    for rows in (1, 4):  # any batch size
        expected = language_model.model.next_log_probs(CONTEXTS[:rows])
        np.testing.assert_allclose(run(target, CONTEXTS[:rows]), expected, atol=2e-5)


def test_a_litert_file_gives_the_numbers_of_python(language_model, tmp_path):
    target = tmp_path / "next.tflite"
    _check_files(export_litert(language_model, target), target, _run_litert, language_model)


def test_an_onnx_file_gives_the_numbers_of_python(language_model, tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    target = tmp_path / "next.onnx"
    _check_files(export_onnx(language_model, target), target, _run_onnx, language_model)


@pytest.mark.long
def test_the_command_writes_the_files(directory, tmp_path, capsys):
    assert main(["export", str(directory), str(tmp_path / "next.tflite")]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'next.tflite'}, {tmp_path / 'next.tflite'}.vocabulary.txt\n"
    assert (tmp_path / "next.tflite").is_file()


def _build_layers(kind: str, dtype: str) -> dict:
    if kind == "tied":
        return {"output": FullSoftmax(40, tied=True, dtype=dtype)}
    if kind == "output of another dtype":
        return {"output": FullSoftmax(40, dtype="mixed_bfloat16")}
    if kind == "modern":
        return {
            "context": AveragedContext(40, 6, averages_after=(1,), dtype=dtype),
            "hidden": DeepHidden(5, activation="gelu", residual_blocks=1, layer_norm=True, dtype=dtype),
        }
    return {"output": kind}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["nce", "adaptive", "energy", "tied", "modern", "output of another dtype"])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_networks_of_each_kind_are_converted(kind, dtype, tmp_path):
    layers = _build_layers(kind, dtype) | {"direct_connections": kind != "energy"}
    model = NPLM(40, order=4, embedding_dim=6, hidden_units=5, dtype=dtype, **layers)
    words = Vocabulary([f"w{i}" for i in range(36)])
    path, _ = export_litert(LanguageModel(model, words, "words", "sentence"), tmp_path / "next.tflite")
    tolerance = 1e-5 if dtype == "float32" and "dtype" not in kind else 0.02  # files have float32 products
    np.testing.assert_allclose(_run_litert(path, CONTEXTS), model.next_log_probs(CONTEXTS), atol=tolerance)


@pytest.mark.long
def test_a_quantised_file_is_small_and_nearly_exact(tmp_path):
    words = Vocabulary([f"w{i}" for i in range(1996)])
    model = NPLM(len(words), order=4, embedding_dim=32, hidden_units=64)
    language_model = LanguageModel(model, words, "words", "sentence")
    whole, _ = export_litert(language_model, tmp_path / "whole.tflite")
    small, _ = export_litert(language_model, tmp_path / "small.tflite", quantise=True)
    assert small.stat().st_size < 0.3 * whole.stat().st_size
    got, expected = (_run_litert(path, CONTEXTS) for path in (small, whole))
    assert 0 < np.abs(got - expected).max() < 0.1
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-4)


def test_misuse_is_refused(language_model, directory, tmp_path, monkeypatch):
    uniform = LanguageModel(Uniform(12, "stream"), Vocabulary(list("abcdefgh")), "words", "stream")
    for export in (export_litert, export_onnx):
        with pytest.raises(InputError, match="can hold an NPLM only. Received: Uniform"):
            export(uniform, tmp_path / "file")
    with pytest.raises(InputError, match="must not be a directory"):
        export_litert(language_model, tmp_path)
    before = (directory / "model.keras").read_bytes()
    with pytest.raises(InputError):
        export_litert(language_model, directory / "model.keras")
    assert (directory / "model.keras").read_bytes() == before
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(InputError, match="pip install 'keras-nplm"):
        export_onnx(language_model, tmp_path / "next.onnx")


def test_flags_of_other_formats_are_refused(directory, tmp_path, capsys):
    for flags, message in {
        "served --quantise": "--quantise",
        "a.tflite --top-k 3": "--top-k",
        "served --top-k 0": "`top_k` must be 1 or more",
        "a.onnx --format litert": "litert",
        "a.tflite.gz": "litert",
    }.items():
        assert main(["export", str(directory), *f"{tmp_path}/{flags}".split()]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", str(directory), ""]) == 2
