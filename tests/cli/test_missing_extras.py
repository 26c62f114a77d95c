"""Without the library of an extra, a command says in one line what to install. Exit status 2."""

import sys

import pytest

from keras_nplm.cli.main import main
from keras_nplm.experiments.benchmark.contenders import is_installed

BLOCKED = {
    "zstd": ("zstandard", "evaluate {model} --text {text}.zst"),
    "lemmas": ("simplemma", "ngram --train {text} --normalise lemmas --output {text}.model"),
    "beam": ("apache_beam", "prepare --train {text} --runner DirectRunner --output {text}.corpus"),
    "onnx": ("tf2onnx", "export {model} {text}.onnx"),
    "remote": ("s3fs", "ngram --train {text} --output s3://bucket/model"),
}


@pytest.mark.parametrize("extra", BLOCKED)
def test_a_missing_extra_is_named(extra, model_directory, tmp_path, monkeypatch, capsys):
    library, command = BLOCKED[extra]
    text = tmp_path / "text"
    text.write_text("the cat sat\n" * 20)
    (tmp_path / "text.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setitem(sys.modules, library, None)
    assert main(command.format(model=model_directory, text=text).split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"needs {library.partition('.')[0]} (" in line and line.endswith(
        f"Fix: `pip install 'keras-nplm[{extra}]'`."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text", "text.zst"]


def test_quantised_onnx_names_onnxruntime(model_directory, tmp_path, monkeypatch, capsys):
    for module in ("onnxruntime", "onnxruntime.quantization"):  # a test before may have imported both
        monkeypatch.setitem(sys.modules, module, None)
    assert main(["export", str(model_directory), str(tmp_path / "model.onnx"), "--quantise"]) == 2
    assert "needs onnxruntime (" in capsys.readouterr().err


def test_the_benchmark_leaves_out_peers_that_are_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not is_installed("torch") and not is_installed("absent_library") and is_installed("numpy")
