"""`keras-nplm export DIR page/`: the format by the name, and what is refused."""

import os
import re

import pytest

from keras_nplm.cli.main import main
from keras_nplm.serving.web_page import RUNTIME_VERSION


@pytest.mark.parametrize(
    "target, flags",
    [
        pytest.param("page", [], id="a directory of this name"),
        pytest.param("out/page/", [], id="with a slash at its end"),
        pytest.param("demo", ["--format", "page"], id="any name with --format"),
    ],
)
def test_the_name_or_the_format_chooses_a_page(
    target, flags, ngram_directory, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    runtime = tmp_path / "runtime.tgz"
    runtime.write_bytes(b"")
    assert main(["export", str(ngram_directory), target, *flags, "--runtime", str(runtime)]) == 2
    assert "`runtime` must be npm's package onnxruntime-web" in capsys.readouterr().err
    assert os.listdir() == [runtime.name]


@pytest.mark.parametrize(
    "target, flags, message",
    [
        pytest.param("demo", ["--runtime", "x.tgz"], "`--runtime` cannot be", id="a SavedModel"),
        pytest.param("page", ["--top-k", "3"], "`--top-k` cannot be", id="a page"),
        pytest.param(
            *("page", ["--format", "saved-model", "--quantise"], "`--quantise` cannot be"),
            id="a SavedModel of this name",
        ),
        pytest.param(
            *("page.onnx", ["--format", "page"], "`TARGET` must have an ending of the format page"),
            id="a file of another format",
        ),
    ],
)
def test_flags_and_names_of_other_formats_are_refused(
    target, flags, message, ngram_directory, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    runtime = tmp_path / "x.tgz"
    runtime.write_bytes(b"")
    assert main(["export", str(ngram_directory), target, *flags]) == 2
    assert message in capsys.readouterr().err
    assert os.listdir() == [runtime.name]


def test_the_help_names_the_version_of_the_runtime(capsys):
    assert main(["export", "--help"]) == 0
    text = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert f"`npm pack onnxruntime-web@{RUNTIME_VERSION}`" in text


@pytest.mark.long
def test_a_page_says_what_it_loads(model_directory, tmp_path, capsys):
    pytest.importorskip("tf2onnx", reason="tf2onnx is needed")
    page = tmp_path / "page"
    assert main(["export", str(model_directory), f"{page}/", "--quantise"]) == 0
    written, *holds, loads, advice, following = capsys.readouterr().out.splitlines()
    assert written == f"wrote {page}/index.html"
    assert "Matrices: rounded to 8 bits after perplexity was measured" in holds
    assert loads.startswith("It loads ONNX Runtime from cdn.jsdelivr.net.")
    assert advice == f"and export with --runtime onnxruntime-web-{RUNTIME_VERSION}.tgz."
    assert following == f"next: open {page}/index.html in a browser"
    assert '"quantised": true' in (page / "facts.js").read_text(encoding="utf-8")
